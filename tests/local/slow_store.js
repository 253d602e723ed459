// Loaded before the local Kinesis server: records are stored more than a second after they got their time.
const path = require('path')
const db = require(path.join(path.dirname(process.argv[1]), 'db'))
const create = db.create

db.create = (options) => {
  const store = create(options)
  const getStreamDb = store.getStreamDb
  store.getStreamDb = (name) => {
    const records = getStreamDb(name)
    if (!records.isSlow) {
      const batch = records.batch.bind(records)
      records.batch = (...request) => setTimeout(() => batch(...request), 1200)
      records.isSlow = true
    }
    return records
  }
  return store
}
