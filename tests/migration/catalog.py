"""What a database's catalog says of the schema, as text that two databases can be compared by."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

if TYPE_CHECKING:
    from postlease.database import Connection

# Each answers rows of (name, definition); names are unique within a kind. Access lists are written
# out, the default ones too, so that "never granted" and "revoked again" read the same.
KINDS: dict[str, LiteralString] = {
    "schema": """
        SELECT n.nspname AS name, array_to_string(ARRAY(
            SELECT format('%s=%s/%s', a.grantee::regrole, a.privilege_type, a.is_grantable)
            FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS a ORDER BY 1), ',')
            AS definition
        FROM pg_namespace AS n WHERE n.nspname = 'postlease'
        """,
    "relation": """
        SELECT c.oid::regclass::text AS name, concat_ws(' | ',
            c.relkind, c.relpersistence, am.amname, c.reloptions::text, c.relrowsecurity,
            c.relreplident, c.relispartition, obj_description(c.oid, 'pg_class'),
            array_to_string(ARRAY(
                SELECT format('%s=%s/%s', a.grantee::regrole, a.privilege_type, a.is_grantable)
                FROM aclexplode(coalesce(c.relacl, acldefault(
                    CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, c.relowner))) AS a
                WHERE c.relkind <> 'i' ORDER BY 1), ','),
            CASE c.relkind WHEN 'i' THEN pg_get_indexdef(c.oid) END,
            i.indisvalid, i.indisunique, i.indisprimary, i.indisclustered) AS definition
        FROM pg_class AS c
        LEFT JOIN pg_am AS am ON am.oid = c.relam
        LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
        WHERE c.relnamespace = 'postlease'::regnamespace
        """,
    "column": """
        SELECT format('%s.%s', a.attrelid::regclass, a.attname) AS name, concat_ws(' | ',
            row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum),
            format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
            a.attstorage, a.attcollation::regcollation, a.attacl::text,
            pg_get_expr(d.adbin, d.adrelid)) AS definition
        FROM pg_attribute AS a
        JOIN pg_class AS c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'postlease'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
        """,
    "constraint": """
        SELECT format('%s.%s', k.conrelid::regclass, k.conname) AS name, concat_ws(' | ',
            k.contype, k.condeferrable, k.condeferred, k.convalidated, k.conindid::regclass,
            pg_get_constraintdef(k.oid)) AS definition
        FROM pg_constraint AS k WHERE k.connamespace = 'postlease'::regnamespace
        """,
    "function": """
        SELECT p.oid::regprocedure::text AS name, concat_ws(' | ',
            p.prosecdef, p.provolatile, p.proparallel, p.proleakproof, p.proisstrict,
            p.procost, p.proconfig::text, pg_get_function_arguments(p.oid),
            pg_get_function_result(p.oid), array_to_string(ARRAY(
                SELECT format('%s=%s/%s', a.grantee::regrole, a.privilege_type, a.is_grantable)
                FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
                ORDER BY 1), ','),
            pg_get_functiondef(p.oid)) AS definition
        FROM pg_proc AS p WHERE p.pronamespace = 'postlease'::regnamespace
        """,
    "trigger": """
        SELECT format('%s.%s', t.tgrelid::regclass, t.tgname) AS name, concat_ws(' | ',
            t.tgenabled, pg_get_triggerdef(t.oid)) AS definition
        FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
        WHERE c.relnamespace = 'postlease'::regnamespace AND NOT t.tgisinternal
        """,
    "type": """
        SELECT t.oid::regtype::text AS name,
            concat_ws(' | ', t.typtype, t.typcategory) AS definition
        FROM pg_type AS t WHERE t.typnamespace = 'postlease'::regnamespace
        """,
    "policy": """
        SELECT format('%s.%s', p.tablename, p.policyname) AS name, p::text AS definition
        FROM pg_policies AS p WHERE p.schemaname = 'postlease'
        """,
    "statistics": """
        SELECT s.stxname AS name, pg_get_statisticsobjdef(s.oid) AS definition
        FROM pg_statistic_ext AS s WHERE s.stxnamespace = 'postlease'::regnamespace
        """,
    "sequence": """
        SELECT s.sequencename AS name, concat_ws(' | ', s.data_type, s.start_value, s.min_value,
            s.max_value, s.increment_by, s.cycle, s.cache_size) AS definition
        FROM pg_sequences AS s WHERE s.schemaname = 'postlease'
        """,
    "default privilege": """
        SELECT d.oid::text AS name, d.defaclacl::text AS definition FROM pg_default_acl AS d
        """,
}


def read(connection: Connection) -> dict[str, str]:
    """Every object of the schema by `kind name`, with its whole definition."""
    found: dict[str, str] = {}
    for kind, statement in KINDS.items():
        for row in connection.execute(statement):
            name = f"{kind} {row['name']}"
            assert name not in found, name
            found[name] = row["definition"]
    return found


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """What is only in one of the two, or defined otherwise; empty when they are equal."""
    return [
        f"{name}: {one.get(name)} <> {other.get(name)}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]
