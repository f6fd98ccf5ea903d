-- The statements by which released versions made and changed the tables in SQLite, a statement a line.
-- 1
CREATE TABLE migrations (number INTEGER PRIMARY KEY, applied REAL NOT NULL)
CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL)
INSERT INTO clock VALUES (1, 0)
CREATE TABLE accounts ( name TEXT PRIMARY KEY, version INTEGER NOT NULL, removed REAL, upstream TEXT NOT NULL, sealed BLOB NOT NULL, models TEXT, priority INTEGER NOT NULL, weight REAL NOT NULL, max_concurrent INTEGER, balance REAL ) WITHOUT ROWID
CREATE INDEX accounts_version ON accounts (version)
CREATE TABLE states ( account TEXT PRIMARY KEY, version INTEGER NOT NULL, entries INTEGER NOT NULL, state TEXT NOT NULL ) WITHOUT ROWID
CREATE INDEX states_version ON states (version)
CREATE TABLE history ( account TEXT NOT NULL, slot INTEGER NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (account, slot) ) WITHOUT ROWID
CREATE INDEX history_at ON history (at)
CREATE TABLE usage ( hour INTEGER NOT NULL, account TEXT NOT NULL, client TEXT NOT NULL, model TEXT NOT NULL, route TEXT NOT NULL, requests INTEGER NOT NULL, errors INTEGER NOT NULL, unmetered INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL, cache_write INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL, milliseconds REAL NOT NULL, PRIMARY KEY (hour, account, client, model, route) ) WITHOUT ROWID
CREATE TABLE workers ( name TEXT PRIMARY KEY, seen REAL NOT NULL, leases TEXT NOT NULL ) WITHOUT ROWID
CREATE TABLE used ( account TEXT PRIMARY KEY, version INTEGER NOT NULL, at REAL NOT NULL ) WITHOUT ROWID
CREATE INDEX used_version ON used (version)
CREATE TABLE balances ( account TEXT PRIMARY KEY, version INTEGER NOT NULL, told REAL NOT NULL, remaining REAL NOT NULL ) WITHOUT ROWID
CREATE INDEX balances_version ON balances (version)
CREATE TABLE pins ( digest TEXT PRIMARY KEY, version INTEGER NOT NULL, account TEXT NOT NULL, at REAL NOT NULL ) WITHOUT ROWID
CREATE INDEX pins_version ON pins (version)
-- 2
CREATE TABLE responses ( id TEXT PRIMARY KEY, owner TEXT NOT NULL, previous TEXT, created REAL NOT NULL, expires REAL NOT NULL, status TEXT NOT NULL, response BLOB NOT NULL, input BLOB NOT NULL, output BLOB NOT NULL, bytes INTEGER NOT NULL, background INTEGER NOT NULL, alive REAL NOT NULL, cancelled INTEGER NOT NULL DEFAULT 0, claimed INTEGER NOT NULL DEFAULT 0, deleted INTEGER NOT NULL DEFAULT 0 )
CREATE INDEX responses_previous ON responses (previous)
CREATE INDEX responses_expires ON responses (expires) WHERE NOT deleted
CREATE INDEX responses_created ON responses (created)
CREATE INDEX responses_hidden ON responses (deleted) WHERE deleted
CREATE INDEX responses_running ON responses (alive) WHERE background
CREATE TABLE response_items ( owner TEXT NOT NULL, item TEXT NOT NULL, response TEXT NOT NULL, PRIMARY KEY (owner, item, response) ) WITHOUT ROWID
CREATE INDEX response_items_response ON response_items (response)
CREATE TABLE response_events ( response TEXT NOT NULL, sequence INTEGER NOT NULL, frame BLOB NOT NULL, PRIMARY KEY (response, sequence) ) WITHOUT ROWID
CREATE TABLE kept_elsewhere ( owner TEXT NOT NULL, name TEXT NOT NULL, account TEXT NOT NULL, expires REAL NOT NULL, PRIMARY KEY (owner, name) ) WITHOUT ROWID
CREATE INDEX kept_elsewhere_expires ON kept_elsewhere (expires)
CREATE TABLE responses_held (id INTEGER PRIMARY KEY CHECK (id = 1), bytes INTEGER NOT NULL)
INSERT INTO responses_held VALUES (1, 0)
CREATE TRIGGER responses_added AFTER INSERT ON responses BEGIN UPDATE responses_held SET bytes = bytes + new.bytes; END
CREATE TRIGGER responses_changed AFTER UPDATE OF bytes ON responses BEGIN UPDATE responses_held SET bytes = bytes + new.bytes - old.bytes; END
CREATE TRIGGER responses_dropped AFTER DELETE ON responses BEGIN UPDATE responses_held SET bytes = bytes - old.bytes; END
-- 3
DROP TABLE pins
CREATE TABLE pins ( version INTEGER NOT NULL, digest TEXT NOT NULL, account TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (version, digest) ) WITHOUT ROWID
-- 4
ALTER TABLE usage ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0
ALTER TABLE usage ADD COLUMN failed INTEGER NOT NULL DEFAULT 0
ALTER TABLE usage ADD COLUMN retries INTEGER NOT NULL DEFAULT 0
UPDATE usage SET attempts = requests, failed = errors WHERE account <> ''
CREATE TABLE errors ( hour INTEGER NOT NULL, account TEXT NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (hour, account, kind) ) WITHOUT ROWID
CREATE TABLE last_errors ( account TEXT PRIMARY KEY, at REAL NOT NULL, error TEXT NOT NULL ) WITHOUT ROWID
-- 5
CREATE TABLE quotas ( account TEXT PRIMARY KEY, version INTEGER NOT NULL, windows TEXT NOT NULL ) WITHOUT ROWID
CREATE INDEX quotas_version ON quotas (version)
CREATE TABLE claims (name TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID
-- 6
CREATE TABLE charges ( hour INTEGER NOT NULL, account TEXT NOT NULL, client TEXT NOT NULL, model TEXT NOT NULL, route TEXT NOT NULL, upstream TEXT NOT NULL, priced_as TEXT NOT NULL, tier TEXT NOT NULL, above INTEGER NOT NULL, prices TEXT NOT NULL, requests INTEGER NOT NULL, unpriced INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL, cache_write INTEGER NOT NULL, cache_write_1h INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL, searches INTEGER NOT NULL, cost INTEGER NOT NULL, PRIMARY KEY ( hour, account, client, model, route, upstream, priced_as, tier, above, prices ) ) WITHOUT ROWID
-- 7
CREATE TABLE client_keys ( name TEXT PRIMARY KEY, version INTEGER NOT NULL, created REAL NOT NULL, removed REAL, rules TEXT NOT NULL ) WITHOUT ROWID
CREATE INDEX client_keys_version ON client_keys (version)
CREATE TABLE client_secrets ( digest TEXT PRIMARY KEY, client_key TEXT NOT NULL, ending TEXT NOT NULL, created REAL NOT NULL, revoked REAL, uses INTEGER NOT NULL, used REAL ) WITHOUT ROWID
CREATE INDEX client_secrets_key ON client_secrets (client_key)
CREATE TABLE teams ( name TEXT PRIMARY KEY, version INTEGER NOT NULL, created REAL NOT NULL, removed REAL, rules TEXT NOT NULL ) WITHOUT ROWID
CREATE INDEX teams_version ON teams (version)
-- 8
ALTER TABLE usage RENAME TO usage_before
CREATE TABLE usage ( hour INTEGER NOT NULL, account TEXT NOT NULL, client TEXT NOT NULL, model TEXT NOT NULL, route TEXT NOT NULL, upstream TEXT NOT NULL, team TEXT NOT NULL, user TEXT NOT NULL, tags TEXT NOT NULL, requests INTEGER NOT NULL, errors INTEGER NOT NULL, unmetered INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL, cache_write INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL, milliseconds REAL NOT NULL, attempts INTEGER NOT NULL, failed INTEGER NOT NULL, retries INTEGER NOT NULL, estimated INTEGER NOT NULL, PRIMARY KEY (hour, account, client, model, route, upstream, team, user, tags) ) WITHOUT ROWID
INSERT INTO usage SELECT hour, account, client, model, route, '', '', '', '', requests, errors, unmetered, input, cached, cache_write, output, reasoning, milliseconds, attempts, failed, retries, 0 FROM usage_before
DROP TABLE usage_before
ALTER TABLE charges RENAME TO charges_before
CREATE TABLE charges ( hour INTEGER NOT NULL, account TEXT NOT NULL, client TEXT NOT NULL, model TEXT NOT NULL, route TEXT NOT NULL, upstream TEXT NOT NULL, priced_as TEXT NOT NULL, tier TEXT NOT NULL, above INTEGER NOT NULL, prices TEXT NOT NULL, team TEXT NOT NULL, user TEXT NOT NULL, tags TEXT NOT NULL, requests INTEGER NOT NULL, unpriced INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL, cache_write INTEGER NOT NULL, cache_write_1h INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL, searches INTEGER NOT NULL, cost INTEGER NOT NULL, PRIMARY KEY ( hour, account, client, model, route, upstream, priced_as, tier, above, prices, team, user, tags ) ) WITHOUT ROWID
INSERT INTO charges SELECT hour, account, client, model, route, upstream, priced_as, tier, above, prices, '', '', '', requests, unpriced, input, cached, cache_write, cache_write_1h, output, reasoning, searches, cost FROM charges_before
DROP TABLE charges_before
-- 9
CREATE TABLE audit ( id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, who TEXT NOT NULL, origin TEXT NOT NULL, address TEXT NOT NULL, action TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, before TEXT, after TEXT )
-- 10
CREATE TABLE admins ( name TEXT PRIMARY KEY, role TEXT NOT NULL, digest TEXT NOT NULL, ending TEXT NOT NULL, created REAL NOT NULL, enabled INTEGER NOT NULL, note TEXT NOT NULL, used REAL ) WITHOUT ROWID
-- 11
ALTER TABLE responses ADD COLUMN request BLOB
ALTER TABLE responses ADD COLUMN taken INTEGER NOT NULL DEFAULT 0
-- 12
CREATE INDEX responses_owned ON responses (owner, created, bytes)
-- 13
CREATE TABLE limit_resets ( ledger TEXT PRIMARY KEY, version INTEGER NOT NULL, at REAL NOT NULL ) WITHOUT ROWID
CREATE INDEX limit_resets_version ON limit_resets (version)
-- 14
CREATE TABLE people (id TEXT, version INTEGER NOT NULL, name TEXT NOT NULL, identity TEXT NOT NULL, created REAL NOT NULL, seen REAL NOT NULL, enabled INTEGER NOT NULL, PRIMARY KEY (id)) WITHOUT ROWID
CREATE INDEX people_version ON people (version)
CREATE INDEX people_name ON people (name)
CREATE TABLE person_sessions (id TEXT, version INTEGER NOT NULL, person TEXT NOT NULL, client TEXT NOT NULL, refresh TEXT NOT NULL, former TEXT NOT NULL, rotated REAL NOT NULL, signed_in REAL NOT NULL, renewed REAL NOT NULL, failing REAL, asking REAL NOT NULL, sealed BLOB NOT NULL, used REAL, ended REAL, PRIMARY KEY (id)) WITHOUT ROWID
CREATE INDEX person_sessions_version ON person_sessions (version)
CREATE INDEX person_sessions_person ON person_sessions (person)
CREATE TABLE sign_ins (id TEXT, alias TEXT NOT NULL, expires REAL NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (id)) WITHOUT ROWID
CREATE INDEX sign_ins_alias ON sign_ins (alias)
CREATE INDEX sign_ins_expires ON sign_ins (expires)
CREATE TABLE signing_keys (id TEXT, version INTEGER NOT NULL, created REAL NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (id)) WITHOUT ROWID
CREATE INDEX signing_keys_version ON signing_keys (version)
-- 15
CREATE TABLE credentials ( name TEXT PRIMARY KEY, sealed BLOB NOT NULL ) WITHOUT ROWID
-- 16
ALTER TABLE kept_elsewhere ADD COLUMN kind TEXT NOT NULL DEFAULT ''
ALTER TABLE kept_elsewhere ADD COLUMN created REAL NOT NULL DEFAULT 0
ALTER TABLE kept_elsewhere ADD COLUMN details TEXT NOT NULL DEFAULT '{}'
ALTER TABLE kept_elsewhere ADD COLUMN due REAL
CREATE INDEX kept_elsewhere_named ON kept_elsewhere (name) WHERE kind <> ''
CREATE INDEX kept_elsewhere_listed ON kept_elsewhere (owner, kind, created, name) WHERE kind <> ''
CREATE INDEX kept_elsewhere_due ON kept_elsewhere (due) WHERE due IS NOT NULL
