"""The tables of the PostgreSQL store, as the migrations that make them.

They have the names and columns of those in SQLite (`dragoman.storage.schema`), where it is told
what they hold. A migration is never changed once it was released: a new one is added at the end,
here and there. Text is compared by its bytes, as in SQLite.
"""

from __future__ import annotations

_FIRST = (
    "CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), version BIGINT NOT NULL)",
    "INSERT INTO clock VALUES (1, 0)",
    """CREATE TABLE accounts (
        name TEXT PRIMARY KEY,
        version BIGINT NOT NULL,
        removed DOUBLE PRECISION,
        upstream TEXT NOT NULL,
        sealed BYTEA NOT NULL,
        models TEXT,
        priority BIGINT NOT NULL,
        weight DOUBLE PRECISION NOT NULL,
        max_concurrent BIGINT,
        balance DOUBLE PRECISION
    )""",
    """CREATE TABLE states (
        account TEXT PRIMARY KEY,
        version BIGINT NOT NULL,
        entries BIGINT NOT NULL,
        state TEXT NOT NULL
    )""",
    """CREATE TABLE history (
        account TEXT NOT NULL,
        slot BIGINT NOT NULL,
        number BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        entry TEXT NOT NULL,
        PRIMARY KEY (account, slot)
    )""",
    "CREATE INDEX history_at ON history (at)",
    """CREATE TABLE usage (
        hour BIGINT NOT NULL,
        account TEXT NOT NULL,
        client TEXT NOT NULL,
        model TEXT NOT NULL,
        route TEXT NOT NULL,
        upstream TEXT NOT NULL,
        team TEXT NOT NULL,
        "user" TEXT NOT NULL,
        tags TEXT NOT NULL,
        requests BIGINT NOT NULL,
        errors BIGINT NOT NULL,
        unmetered BIGINT NOT NULL,
        input BIGINT NOT NULL,
        cached BIGINT NOT NULL,
        cache_write BIGINT NOT NULL,
        output BIGINT NOT NULL,
        reasoning BIGINT NOT NULL,
        milliseconds DOUBLE PRECISION NOT NULL,
        attempts BIGINT NOT NULL,
        failed BIGINT NOT NULL,
        retries BIGINT NOT NULL,
        estimated BIGINT NOT NULL,
        PRIMARY KEY (hour, account, client, model, route, upstream, team, "user", tags)
    ) WITH (fillfactor = 70)""",
    """CREATE TABLE charges (
        hour BIGINT NOT NULL,
        account TEXT NOT NULL,
        client TEXT NOT NULL,
        model TEXT NOT NULL,
        route TEXT NOT NULL,
        upstream TEXT NOT NULL,
        priced_as TEXT NOT NULL,
        tier TEXT NOT NULL,
        above BIGINT NOT NULL,
        prices TEXT NOT NULL,
        team TEXT NOT NULL,
        "user" TEXT NOT NULL,
        tags TEXT NOT NULL,
        requests BIGINT NOT NULL,
        unpriced BIGINT NOT NULL,
        input BIGINT NOT NULL,
        cached BIGINT NOT NULL,
        cache_write BIGINT NOT NULL,
        cache_write_1h BIGINT NOT NULL,
        output BIGINT NOT NULL,
        reasoning BIGINT NOT NULL,
        searches BIGINT NOT NULL,
        cost BIGINT NOT NULL,
        PRIMARY KEY (
            hour, account, client, model, route, upstream, priced_as, tier, above, prices, team,
            "user", tags
        )
    ) WITH (fillfactor = 70)""",
    """CREATE TABLE errors (
        hour BIGINT NOT NULL,
        account TEXT NOT NULL,
        kind TEXT NOT NULL,
        number BIGINT NOT NULL,
        PRIMARY KEY (hour, account, kind)
    )""",
    """CREATE TABLE last_errors (
        account TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, error TEXT NOT NULL
    )""",
    """CREATE TABLE workers (
        name TEXT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL, leases TEXT NOT NULL
    ) WITH (fillfactor = 50)""",
    """CREATE TABLE used (
        account TEXT PRIMARY KEY, version BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL
    )""",
    """CREATE TABLE balances (
        account TEXT PRIMARY KEY,
        version BIGINT NOT NULL,
        told DOUBLE PRECISION NOT NULL,
        remaining DOUBLE PRECISION NOT NULL
    )""",
    """CREATE TABLE pins (
        version BIGINT NOT NULL,
        digest TEXT NOT NULL,
        account TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (version, digest)
    )""",
    """CREATE TABLE quotas (
        account TEXT PRIMARY KEY, version BIGINT NOT NULL, windows TEXT NOT NULL
    )""",
    "CREATE TABLE claims (name TEXT PRIMARY KEY, until DOUBLE PRECISION NOT NULL)",
    """CREATE TABLE client_keys (
        name TEXT PRIMARY KEY,
        version BIGINT NOT NULL,
        created DOUBLE PRECISION NOT NULL,
        removed DOUBLE PRECISION,
        rules TEXT NOT NULL
    )""",
    """CREATE TABLE client_secrets (
        digest TEXT PRIMARY KEY,
        client_key TEXT NOT NULL,
        ending TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL,
        revoked DOUBLE PRECISION,
        uses BIGINT NOT NULL,
        used DOUBLE PRECISION
    )""",
    "CREATE INDEX client_secrets_key ON client_secrets (client_key)",
    """CREATE TABLE teams (
        name TEXT PRIMARY KEY,
        version BIGINT NOT NULL,
        created DOUBLE PRECISION NOT NULL,
        removed DOUBLE PRECISION,
        rules TEXT NOT NULL
    )""",
    *(
        f"CREATE INDEX {table}_version ON {table} (version)"
        for table in ("accounts", "states", "used", "balances", "quotas", "client_keys", "teams")
    ),
    """CREATE TABLE audit (
        id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
        at DOUBLE PRECISION NOT NULL,
        who TEXT NOT NULL,
        origin TEXT NOT NULL,
        address TEXT NOT NULL,
        action TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        before TEXT,
        after TEXT
    )""",
    """CREATE TABLE admins (
        name TEXT PRIMARY KEY,
        role TEXT NOT NULL,
        digest TEXT NOT NULL,
        ending TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL,
        enabled BOOLEAN NOT NULL,
        note TEXT NOT NULL,
        used DOUBLE PRECISION
    )""",
    """CREATE TABLE responses (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        previous TEXT,
        created DOUBLE PRECISION NOT NULL,
        expires DOUBLE PRECISION NOT NULL,
        status TEXT NOT NULL,
        response BYTEA NOT NULL,
        input BYTEA NOT NULL,
        output BYTEA NOT NULL,
        bytes BIGINT NOT NULL,
        background BOOLEAN NOT NULL,
        alive DOUBLE PRECISION NOT NULL,
        cancelled BOOLEAN NOT NULL DEFAULT FALSE,
        claimed BIGINT NOT NULL DEFAULT 0,
        deleted BOOLEAN NOT NULL DEFAULT FALSE
    )""",
    "CREATE INDEX responses_previous ON responses (previous)",
    "CREATE INDEX responses_expires ON responses (expires) WHERE NOT deleted",
    "CREATE INDEX responses_created ON responses (created)",
    "CREATE INDEX responses_hidden ON responses (deleted) WHERE deleted",
    "CREATE INDEX responses_running ON responses (alive) WHERE background",
    """CREATE TABLE response_items (
        owner TEXT NOT NULL,
        item TEXT NOT NULL,
        response TEXT NOT NULL,
        PRIMARY KEY (owner, item, response)
    )""",
    "CREATE INDEX response_items_response ON response_items (response)",
    """CREATE TABLE response_events (
        response TEXT NOT NULL,
        sequence BIGINT NOT NULL,
        frame BYTEA NOT NULL,
        PRIMARY KEY (response, sequence)
    )""",
    """CREATE TABLE kept_elsewhere (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        account TEXT NOT NULL,
        expires DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (owner, name)
    )""",
    "CREATE INDEX kept_elsewhere_expires ON kept_elsewhere (expires)",
    # Their sum counts. There are several rows so that transactions seldom wait for one another.
    """CREATE TABLE responses_held (id INTEGER PRIMARY KEY, bytes BIGINT NOT NULL)
        WITH (fillfactor = 20)""",
    "INSERT INTO responses_held SELECT place, 0 FROM generate_series(0, 15) AS place",
    """CREATE FUNCTION responses_counted() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE more BIGINT := 0;
        BEGIN
            IF TG_OP <> 'DELETE' THEN more := new.bytes; END IF;
            IF TG_OP <> 'INSERT' THEN more := more - old.bytes; END IF;
            IF more <> 0 THEN
                UPDATE responses_held SET bytes = bytes + more WHERE id = pg_backend_pid() % 16;
            END IF;
            RETURN NULL;
        END $$""",
    """CREATE TRIGGER responses_counted AFTER INSERT OR DELETE OR UPDATE OF bytes ON responses
        FOR EACH ROW EXECUTE FUNCTION responses_counted()""",
)

_TAKEN_OVER = (
    "ALTER TABLE responses ADD COLUMN request BYTEA",
    "ALTER TABLE responses ADD COLUMN taken BIGINT NOT NULL DEFAULT 0",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    tuple(statement.replace(" TEXT", ' TEXT COLLATE "C"') for statement in _FIRST),
    _TAKEN_OVER,
)
"""Statements that lead from each version of the tables to the next; the first from none."""

MAKE_MIGRATIONS = (
    "CREATE TABLE IF NOT EXISTS migrations"
    " (number INTEGER PRIMARY KEY, applied DOUBLE PRECISION NOT NULL)"
)
