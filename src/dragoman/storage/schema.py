"""The tables of the SQLite store, as the migrations that make them.

A migration is never changed once it was released: a new one is added at the end. All that a file
lacks are applied in one transaction, so that it is never half of one and half of another.

Every row that workers learn of carries the `version` of the transaction that wrote it last, by
which "what changed since" is a range of an index.
"""

from __future__ import annotations

APPLICATION_ID = 0x44524147
"""Marks this program's files among SQLite files ("DRAG"); offset 68 of the file."""

_FIRST = (
    # When each step of this list was taken.
    "CREATE TABLE migrations (number INTEGER PRIMARY KEY, applied REAL NOT NULL)",
    # One row: how many transactions have written here.
    "CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL)",
    "INSERT INTO clock VALUES (1, 0)",
    # Accounts that are kept here. `sealed` is encrypted; `models` is JSON, NULL for all models.
    # `removed` is when the account was removed, so that workers hear of it; NULL if it was not.
    """CREATE TABLE accounts (
        name TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        removed REAL,
        upstream TEXT NOT NULL,
        sealed BLOB NOT NULL,
        models TEXT,
        priority INTEGER NOT NULL,
        weight REAL NOT NULL,
        max_concurrent INTEGER,
        balance REAL
    ) WITHOUT ROWID""",
    "CREATE INDEX accounts_version ON accounts (version)",
    # What is known of accounts, also of those in the configuration file. `entries` counts the
    # lines of history there ever were: the next one's slot in the ring follows from it.
    """CREATE TABLE states (
        account TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        entries INTEGER NOT NULL,
        state TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX states_version ON states (version)",
    # The last lines of each account's history: a ring, so that an account that fails every
    # few seconds takes no more room than any other. `entry` is JSON.
    """CREATE TABLE history (
        account TEXT NOT NULL,
        slot INTEGER NOT NULL,
        number INTEGER NOT NULL,
        at REAL NOT NULL,
        entry TEXT NOT NULL,
        PRIMARY KEY (account, slot)
    ) WITHOUT ROWID""",
    "CREATE INDEX history_at ON history (at)",
    # Sums by the hour; columns as in `UsageKey` and `UsageCount`.
    """CREATE TABLE usage (
        hour INTEGER NOT NULL,
        account TEXT NOT NULL,
        client TEXT NOT NULL,
        model TEXT NOT NULL,
        route TEXT NOT NULL,
        requests INTEGER NOT NULL,
        errors INTEGER NOT NULL,
        unmetered INTEGER NOT NULL,
        input INTEGER NOT NULL,
        cached INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        output INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        milliseconds REAL NOT NULL,
        PRIMARY KEY (hour, account, client, model, route)
    ) WITHOUT ROWID""",
    # Workers with requests in flight: when each was last heard of, and its leases as JSON.
    """CREATE TABLE workers (
        name TEXT PRIMARY KEY,
        seen REAL NOT NULL,
        leases TEXT NOT NULL
    ) WITHOUT ROWID""",
    # When each account was last chosen.
    """CREATE TABLE used (
        account TEXT PRIMARY KEY, version INTEGER NOT NULL, at REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX used_version ON used (version)",
    # Tokens left. `told` is the balance that was last set by a person or the configuration: only
    # another one replaces what is left.
    """CREATE TABLE balances (
        account TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        told REAL NOT NULL,
        remaining REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX balances_version ON balances (version)",
    # Which account a conversation is with, since when. `digest` is hexadecimal, and says nothing
    # of the conversation.
    """CREATE TABLE pins (
        digest TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        account TEXT NOT NULL,
        at REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX pins_version ON pins (version)",
)

_RESPONSES = (
    # Stored responses, one turn each; `response` is an object, `input` and `output` arrays of
    # items, as JSON. `deleted` ones are hidden, and kept while a later turn builds on them.
    # `alive` is when whoever runs a background response was last heard of; `claimed` is when
    # the answers of its tools were taken, 0 if they were not.
    """CREATE TABLE responses (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        previous TEXT,
        created REAL NOT NULL,
        expires REAL NOT NULL,
        status TEXT NOT NULL,
        response BLOB NOT NULL,
        input BLOB NOT NULL,
        output BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        background INTEGER NOT NULL,
        alive REAL NOT NULL,
        cancelled INTEGER NOT NULL DEFAULT 0,
        claimed INTEGER NOT NULL DEFAULT 0,
        deleted INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX responses_previous ON responses (previous)",
    "CREATE INDEX responses_expires ON responses (expires) WHERE NOT deleted",
    "CREATE INDEX responses_created ON responses (created)",
    "CREATE INDEX responses_hidden ON responses (deleted) WHERE deleted",
    "CREATE INDEX responses_running ON responses (alive) WHERE background",
    # Where an item is to be found by its id.
    """CREATE TABLE response_items (
        owner TEXT NOT NULL,
        item TEXT NOT NULL,
        response TEXT NOT NULL,
        PRIMARY KEY (owner, item, response)
    ) WITHOUT ROWID""",
    "CREATE INDEX response_items_response ON response_items (response)",
    # What a background response has said so far, frame by frame.
    """CREATE TABLE response_events (
        response TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        frame BLOB NOT NULL,
        PRIMARY KEY (response, sequence)
    ) WITHOUT ROWID""",
    # Which account keeps what is stored at its service: responses, and items of theirs. Nothing of
    # what they say.
    """CREATE TABLE kept_elsewhere (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        account TEXT NOT NULL,
        expires REAL NOT NULL,
        PRIMARY KEY (owner, name)
    ) WITHOUT ROWID""",
    "CREATE INDEX kept_elsewhere_expires ON kept_elsewhere (expires)",
    # One row: the bytes of all responses together, so that nobody has to add them up.
    "CREATE TABLE responses_held (id INTEGER PRIMARY KEY CHECK (id = 1), bytes INTEGER NOT NULL)",
    "INSERT INTO responses_held VALUES (1, 0)",
    """CREATE TRIGGER responses_added AFTER INSERT ON responses BEGIN
        UPDATE responses_held SET bytes = bytes + new.bytes;
    END""",
    """CREATE TRIGGER responses_changed AFTER UPDATE OF bytes ON responses BEGIN
        UPDATE responses_held SET bytes = bytes + new.bytes - old.bytes;
    END""",
    """CREATE TRIGGER responses_dropped AFTER DELETE ON responses BEGIN
        UPDATE responses_held SET bytes = bytes - old.bytes;
    END""",
)

_PINS = (
    # As before, but as a log: the latest line of a digest counts. Digests are random, so that a
    # table in their order has a page written for each, and that costs the more the longer it is.
    "DROP TABLE pins",
    """CREATE TABLE pins (
        version INTEGER NOT NULL,
        digest TEXT NOT NULL,
        account TEXT NOT NULL,
        at REAL NOT NULL,
        PRIMARY KEY (version, digest)
    ) WITHOUT ROWID""",
)

_ATTEMPTS = (
    # Of the attempts before this only the last of each request was counted.
    "ALTER TABLE usage ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE usage ADD COLUMN failed INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE usage ADD COLUMN retries INTEGER NOT NULL DEFAULT 0",
    "UPDATE usage SET attempts = requests, failed = errors WHERE account <> ''",
    # Failed attempts by the hour and by the kind of error.
    """CREATE TABLE errors (
        hour INTEGER NOT NULL,
        account TEXT NOT NULL,
        kind TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (hour, account, kind)
    ) WITHOUT ROWID""",
    # The last failed attempt of each account; `error` is JSON.
    """CREATE TABLE last_errors (
        account TEXT PRIMARY KEY, at REAL NOT NULL, error TEXT NOT NULL
    ) WITHOUT ROWID""",
)

_QUOTAS = (
    # What upstreams told of each account's quota; `windows` is JSON.
    """CREATE TABLE quotas (
        account TEXT PRIMARY KEY, version INTEGER NOT NULL, windows TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX quotas_version ON quotas (version)",
    # What one of the workers has told the webhook of, and until when it is not told again.
    "CREATE TABLE claims (name TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID",
)


_CHARGES = (
    # What was charged, by the hour; columns as in `ChargeKey` and `ChargeCount`.
    """CREATE TABLE charges (
        hour INTEGER NOT NULL,
        account TEXT NOT NULL,
        client TEXT NOT NULL,
        model TEXT NOT NULL,
        route TEXT NOT NULL,
        upstream TEXT NOT NULL,
        priced_as TEXT NOT NULL,
        tier TEXT NOT NULL,
        above INTEGER NOT NULL,
        prices TEXT NOT NULL,
        requests INTEGER NOT NULL,
        unpriced INTEGER NOT NULL,
        input INTEGER NOT NULL,
        cached INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        cache_write_1h INTEGER NOT NULL,
        output INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        searches INTEGER NOT NULL,
        cost INTEGER NOT NULL,
        PRIMARY KEY (
            hour, account, client, model, route, upstream, priced_as, tier, above, prices
        )
    ) WITHOUT ROWID""",
)

_KEYS = (
    # Client keys and teams; `rules` is JSON. Removed ones stay: their names are given to no others.
    """CREATE TABLE client_keys (
        name TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        created REAL NOT NULL,
        removed REAL,
        rules TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX client_keys_version ON client_keys (version)",
    # The secrets of keys: SHA-256 in hexadecimal, and their last signs.
    """CREATE TABLE client_secrets (
        digest TEXT PRIMARY KEY,
        client_key TEXT NOT NULL,
        ending TEXT NOT NULL,
        created REAL NOT NULL,
        revoked REAL,
        uses INTEGER NOT NULL,
        used REAL
    ) WITHOUT ROWID""",
    "CREATE INDEX client_secrets_key ON client_secrets (client_key)",
    """CREATE TABLE teams (
        name TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        created REAL NOT NULL,
        removed REAL,
        rules TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX teams_version ON teams (version)",
)

_USAGE = (
    # Also by upstream, team, end user and tags, and with `estimated`. Of what was counted before
    # nobody knows these.
    "ALTER TABLE usage RENAME TO usage_before",
    """CREATE TABLE usage (
        hour INTEGER NOT NULL,
        account TEXT NOT NULL,
        client TEXT NOT NULL,
        model TEXT NOT NULL,
        route TEXT NOT NULL,
        upstream TEXT NOT NULL,
        team TEXT NOT NULL,
        user TEXT NOT NULL,
        tags TEXT NOT NULL,
        requests INTEGER NOT NULL,
        errors INTEGER NOT NULL,
        unmetered INTEGER NOT NULL,
        input INTEGER NOT NULL,
        cached INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        output INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        milliseconds REAL NOT NULL,
        attempts INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        retries INTEGER NOT NULL,
        estimated INTEGER NOT NULL,
        PRIMARY KEY (hour, account, client, model, route, upstream, team, user, tags)
    ) WITHOUT ROWID""",
    """INSERT INTO usage SELECT hour, account, client, model, route, '', '', '', '', requests,
        errors, unmetered, input, cached, cache_write, output, reasoning, milliseconds, attempts,
        failed, retries, 0 FROM usage_before""",
    "DROP TABLE usage_before",
    "ALTER TABLE charges RENAME TO charges_before",
    """CREATE TABLE charges (
        hour INTEGER NOT NULL,
        account TEXT NOT NULL,
        client TEXT NOT NULL,
        model TEXT NOT NULL,
        route TEXT NOT NULL,
        upstream TEXT NOT NULL,
        priced_as TEXT NOT NULL,
        tier TEXT NOT NULL,
        above INTEGER NOT NULL,
        prices TEXT NOT NULL,
        team TEXT NOT NULL,
        user TEXT NOT NULL,
        tags TEXT NOT NULL,
        requests INTEGER NOT NULL,
        unpriced INTEGER NOT NULL,
        input INTEGER NOT NULL,
        cached INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        cache_write_1h INTEGER NOT NULL,
        output INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        searches INTEGER NOT NULL,
        cost INTEGER NOT NULL,
        PRIMARY KEY (
            hour, account, client, model, route, upstream, priced_as, tier, above, prices, team,
            user, tags
        )
    ) WITHOUT ROWID""",
    """INSERT INTO charges SELECT hour, account, client, model, route, upstream, priced_as, tier,
        above, prices, '', '', '', requests, unpriced, input, cached, cache_write, cache_write_1h,
        output, reasoning, searches, cost FROM charges_before""",
    "DROP TABLE charges_before",
)

_AUDIT = (
    # What people changed; `before` and `after` are JSON objects, NULL where there was nothing.
    """CREATE TABLE audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        origin TEXT NOT NULL,
        address TEXT NOT NULL,
        action TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        before TEXT,
        after TEXT
    )""",
)

_ADMINS = (
    # Keys of the administration, by the SHA-256 of their secrets in hexadecimal.
    """CREATE TABLE admins (
        name TEXT PRIMARY KEY,
        role TEXT NOT NULL,
        digest TEXT NOT NULL,
        ending TEXT NOT NULL,
        created REAL NOT NULL,
        enabled INTEGER NOT NULL,
        note TEXT NOT NULL,
        used REAL
    ) WITHOUT ROWID""",
)

_TAKEN_OVER = (
    # What a background response that is not finished answers, for whoever takes it over when its
    # worker dies, and how often that happened.
    "ALTER TABLE responses ADD COLUMN request BLOB",
    "ALTER TABLE responses ADD COLUMN taken INTEGER NOT NULL DEFAULT 0",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _FIRST,
    _RESPONSES,
    _PINS,
    _ATTEMPTS,
    _QUOTAS,
    _CHARGES,
    _KEYS,
    _USAGE,
    _AUDIT,
    _ADMINS,
    _TAKEN_OVER,
)
"""Statements that lead from each version of the tables to the next; the first from an empty
file."""
