SELECT name, city, state, id
FROM (SELECT id, seller FROM auction WHERE category = 10)
JOIN (SELECT id AS seller, name, city, state FROM person WHERE state = 'OR' OR state = 'ID' OR state = 'CA') USING (seller)
