/** What a statement waits for in PostgreSQL: locks, and synchronous standbys. Fragments of SQL. */

/**
 * The common table expression `limits`, which ends a wait for a row lock after `milliseconds`, an expression that gives a
 * text. A statement whose caller gave up otherwise keeps its backend until the lock is free, and each retry adds one.
 *
 * The setting lasts until the end of the transaction, so a pooler may lend the connection to anyone afterwards. A
 * statement must join `limits` and require {@link isLimited}: only then is the setting made before the first lock.
 */
export function lockLimit(milliseconds: string): string {
  return `limits as materialized (select set_config('lock_timeout', ${milliseconds}, true) as lock)`
}

/** Of a call without a deadline. */
const longestLockMs = 10_000

/**
 * How many milliseconds a statement may wait for a lock whose caller gives up after `leftMs`. A quarter less, so that the
 * server's refusal arrives in time: the connection stays in use, and no new one is opened beside it.
 */
export function lockMsWithin(leftMs = longestLockMs): number {
  // PostgreSQL takes 0 for no limit.
  return Math.max(1, Math.floor(leftMs * 0.75))
}

/** True for the row of {@link lockLimit}. */
export const isLimited = `limits.lock <> ''`

/** Which backend runs the statement, when it loaded its configuration, and when its transaction began. */
const configuration = `concat_ws(' ', pg_backend_pid(), extract(epoch from pg_conf_load_time()), extract(epoch from now()))`

/**
 * A column of each write that is null where the commit does not wait for a standby. Otherwise the commit is confirmed by
 * {@link lookAgain} and {@link isSameConfiguration}.
 */
export const waited = `case when current_setting('synchronous_standby_names') <> '' then ${configuration} end as waited`

/** The longest time that the postmaster takes to signal all backends, with room to spare. */
const signalSeconds = 1

/** The second look, sent after the commit was answered. */
export const lookAgain = `select ${configuration} as waited`

/**
 * Whether nobody can have released a commit from its wait for a standby. `before` is from the write, `after` from the
 * second look.
 *
 * When `synchronous_standby_names` is emptied and the configuration reloaded, PostgreSQL wakes waiting commits with
 * success and no warning, and later commits do not wait at all. The setting alone does not show it, because it may have
 * been filled again before the second look. The time of the load does:
 *
 * 1. The postmaster loads the configuration, then signals every backend, and only then the checkpointer, which wakes the
 *    commits. So the signal was sent to each backend before the released commit was answered.
 * 2. A backend loads the configuration before it runs the next command that it reads. A backend that was started later
 *    has the postmaster's. So the second look, sent after that answer, shows a load after the write's.
 *
 * Behind a pooler the second look may be answered by another backend. Its load must be well before the write's transaction
 * began, on the server's clock, which must not be set back in that moment: the postmaster signals one backend after
 * another. A load of that backend that only came late counts as a reload, which costs a retry.
 *
 * Not covered: a write in the moment after the setting was filled. Commits wait only once the checkpointer has loaded it
 * too, which no statement shows.
 */
export function isSameConfiguration(before: string, after: string): boolean {
  const [backend, loaded, began] = before.split(' ')
  const [backendNow, loadedNow] = after.split(' ')
  return backend === backendNow ? loaded === loadedNow : Number(loadedNow) < Number(began) - signalSeconds
}
