-- What it is.
create stream s (a varchar not null, -- beside a
  -- above b
  b bigint comment 'x', c array<struct<x int, y map<varchar,bigint>>>, "Date" date,
  constraint ok check (b > 0) on violation warn) with ('store'='k', 'topic'='s', 'timestamp'='b'); -- after s


create stream t as with q as (select a, count(*) over (partition by a order by b rows between 5 preceding and current row)
  as n from s) select a->b as x, -1 as m, a - -1 as z, x.y[1] as w, a||'x' as v -- last
 from s left join q within 5 minutes on s.a=q.a and s.b between 1 and 2 and (s.c=1 or s.eeeeeeeeeeeeeeeeeeeeeeeee=3 or 1=4)
 where a in (select a from s) and b = /* now */ current_timestamp
 partition by a query with ('state.ttl.millis'=1);
begin application visits create virtual stream valid as select * from s where a is not null; insert into t
  select a from valid union all (select b from s); end application;
use store k; use database d;
create store n with ('type'=KINESIS, 'access_region'="AWS us-east-1");
create stream p as select case when aaaaaaaaaaaaaaaaaaaaaaaaaaaa>1 then 'xxxxxxxxxxxxxxxxxxxx' when bbbbbbbbbbbbbbbbbb<2 then 'y' else 'z' end as kind, left(a,2) as l from s
-- the end
; print   topic s
 with ('from_beginning'); /* a */ /* b */ values (1,'a'), -- one
 (2,'b');
