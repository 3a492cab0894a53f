/** SQL fragments for the things a statement waits for in PostgreSQL: locks and synchronous standbys. */

/**
 * The common table expression `limits`, which ends a wait for a row lock after `milliseconds`, an SQL expression that
 * returns text. Without it, a statement whose caller has stopped waiting would keep its backend until the lock is free,
 * and each retry would occupy another backend.
 *
 * The setting lasts until the end of the transaction, so a pooler may hand the connection to any client afterwards. A
 * statement must join `limits` and require {@link isLimited}. Only then is the setting applied before the first lock.
 */
export function lockLimit(milliseconds: string): string {
  return `limits as materialized (select set_config('lock_timeout', ${milliseconds}, true) as lock)`
}

/** The default for a call without a deadline. */
const longestLockMs = 10_000

/**
 * How many milliseconds a statement may wait for a lock if its caller stops waiting after `leftMs`. The result is one
 * quarter shorter than `leftMs`, so that the server's error arrives in time. The connection can then be reused, and no
 * additional one is opened.
 */
export function lockMsWithin(leftMs = longestLockMs): number {
  // PostgreSQL treats 0 as no limit.
  return Math.max(1, Math.floor(leftMs * 0.75))
}

/** A condition that holds for the row of {@link lockLimit}. Requiring it applies the setting before the first lock. */
export const isLimited = `limits.lock <> ''`

/** The backend that runs the statement, when it loaded its configuration, and when its transaction started. */
const configuration = `concat_ws(' ', pg_backend_pid(), extract(epoch from pg_conf_load_time()), extract(epoch from now()))`

/**
 * A column of each write. It is null if the commit does not wait for a standby. Otherwise {@link lookAgain} and {@link
 * isSameConfiguration} confirm the commit.
 */
export const waited = `case when current_setting('synchronous_standby_names') <> '' then ${configuration} end as waited`

/** The longest time that the postmaster takes to signal all backends, with a margin. */
const signalSeconds = 1

/** The second query, sent after the commit was answered. */
export const lookAgain = `select ${configuration} as waited`

/**
 * Whether nobody can have released a commit from its wait for a standby. `before` is from the write, `after` from the
 * second query.
 *
 * When `synchronous_standby_names` is emptied and the configuration reloaded, PostgreSQL wakes waiting commits with
 * success and no warning, and later commits do not wait. The setting alone does not show this, because it may have been
 * restored before the second query. The load time does:
 *
 * 1. The postmaster loads the configuration, then signals every backend, and only then the checkpointer, which wakes the
 *    commits. So the signal was sent to each backend before the released commit was answered.
 * 2. A backend loads the configuration before it runs the next command that it reads. A backend that was started later
 *    inherits the postmaster's configuration. So the second query, sent after that answer, shows a load time after the
 *    write's.
 *
 * Behind a pooler another backend may answer the second query. Its load time must be well before the start of the
 * write's transaction, because the postmaster signals one backend after another. This compares times of the server's
 * clock, which must not be set back at that moment. If that backend merely loaded its configuration late, that counts
 * as a reload, which costs a retry.
 *
 * Not covered: a write just after the setting was changed from empty to a list of standbys. Commits wait only once the
 * checkpointer has also loaded the new list, and no statement can show that.
 */
export function isSameConfiguration(before: string, after: string): boolean {
  const [backend, loaded, began] = before.split(' ')
  const [backendNow, loadedNow] = after.split(' ')
  return backend === backendNow ? loaded === loadedNow : Number(loadedNow) < Number(began) - signalSeconds
}
