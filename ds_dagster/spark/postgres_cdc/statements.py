"""Statements for the server: state of the log and of a slot, publications, changes of a slot."""

from __future__ import annotations

LOOK_QUERY = """
    SELECT pg_current_wal_flush_lsn()::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        s.plugin::text, s.database::text, s.wal_status, s.confirmed_flush_lsn::text,
        pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint,
        (SELECT count(*) FROM pg_publication_tables
            WHERE pubname = %(slot)s AND (schemaname::text, tablename::text) IN %(tables)s),
        current_database()::text, current_setting('max_slot_wal_keep_size')
    FROM (SELECT 1) AS one LEFT JOIN pg_replication_slots s ON s.slot_name = %(slot)s
"""
FACTS_QUERY = """
    SELECT current_setting('server_version_num')::int, current_setting('wal_level'),
        (SELECT rolsuper OR rolreplication OR EXISTS (
            SELECT 1 FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
            WHERE m.member = r.oid AND g.rolname = 'rds_replication') FROM pg_roles r WHERE rolname = current_user),
        current_database()::text, current_user::text
"""
PUBLISHED_QUERY = "SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = %s"
PEEK_ONE = """
    SELECT max(lsn)::text FROM pg_logical_slot_peek_binary_changes(
        %(slot)s, %(upto)s::pg_lsn, 1, 'proto_version', '1', 'publication_names', %(publication)s)
"""
"""End of the first transaction: the LSN of its last message is the end of its commit record."""
PEEK = """
    SELECT data FROM pg_logical_slot_peek_binary_changes(
        {slot}, {upto}::pg_lsn, NULL, 'proto_version', '1', 'publication_names', {publication})
"""
CREATE_PUBLICATION = """
    CREATE PUBLICATION {name} FOR TABLE {tables}
    WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)
"""
