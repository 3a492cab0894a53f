import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the Redis store, and the check that must catch it. */
export interface RedisMutation extends Mutation {
  /** A case of the conformance suite, or a check in mutants.server.test.ts. */
  readonly caughtBy: string
}

const script = 'stores/redis/scripts.ts'
const store = 'stores/redis/index.ts'

/** A real Redis must reveal every one of these. */
export const redisMutations: readonly RedisMutation[] = [
  {
    name: 'keys are overwritten without comparing their content',
    file: script,
    find: "if ARGV[1] ~= version or ARGV[2] ~= (term and '=' .. term or '${absent}') then",
    replace: "if ARGV[1] == '?' then",
    caughtBy: 'exactly one of many renewals of the same version wins',
  },
  {
    name: 'a record is overwritten without comparing its version',
    file: script,
    find: 'ARGV[1] ~= version or',
    replace: "ARGV[1] == '?' or",
    caughtBy: 'renew and release of a removed record are refused and do not recreate it',
  },
  {
    name: 'a takeover ignores the separately stored term',
    file: script,
    find: "or ARGV[2] ~= (term and '=' .. term or '${absent}')",
    replace: '',
    caughtBy: 'acquire is refused when someone has raised the stored term',
  },
  {
    name: 'an empty key counts as missing',
    file: script,
    find: "record and '=' .. string.match(record, '^[^ ]*') or '${absent}'",
    replace: "record and #record > 0 and '=' .. string.match(record, '^[^ ]*') or '${absent}'",
    caughtBy: 'an empty key is not overwritten',
  },
  {
    name: 'the highest term is lost with the record',
    file: store,
    find: 'const kept = term === undefined ? undefined',
    replace: 'const kept = term === undefined || !record ? undefined',
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a version does not contain the write id',
    file: store,
    find: 'const version = `${count}-${nonce}`',
    replace: 'const version = `${count}-${draft.attempt}`',
    caughtBy: 'no version is reused after Redis was emptied',
  },
  {
    name: 'a key of the store expires',
    file: script,
    find: "redis.call('MSET', KEYS[1], ARGV[3], KEYS[2], ARGV[4])",
    replace: "redis.call('MSET', KEYS[1], ARGV[3], KEYS[2], ARGV[4]) redis.call('PEXPIRE', KEYS[2], 600000)",
    caughtBy: 'no key of the store expires',
  },
  {
    name: 'a read does not require write access',
    file: script,
    find: "  redis.call('PERSIST', KEYS[2])\n",
    replace: '',
    caughtBy: 'a replica is not read',
  },
  {
    name: 'a refusal returns the state that the store remembers instead of the current state',
    file: store,
    find: 'return { ok: false, found: this.#foundOf(election, pair) }',
    replace: 'return { ok: false, found: over }',
    caughtBy: 'a refusal returns the leader to a candidate that has read nothing',
  },
  {
    name: 'an unknown script is reported as an error',
    file: 'stores/redis/link.ts',
    find: "if (replyCodeOf(error) !== 'NOSCRIPT' ||",
    replace: "if (replyCodeOf(error) !== 'NOSUCHSCRIPT' ||",
    caughtBy: 'acquire succeeds after Redis has lost the scripts',
  },
  {
    name: 'a server that evicts keys is accepted',
    file: 'stores/redis/server-checks.ts',
    find: "if (policy.startsWith('allkeys-')) throw",
    replace: "if (policy === 'allkeys') throw",
    caughtBy: 'a server that evicts keys is refused',
  },
  {
    name: 'a connection on which a call hangs is reused for the next call',
    file: 'stores/redis/shared-connections.ts',
    find: 'if (bound.ended || isBroken(error)) this.#retire(shared)',
    replace: '',
    caughtBy: 'a renewal does not wait behind one that hangs',
  },
  {
    name: 'an abandoned claim is sent when the server is back',
    file: 'stores/redis/shared-connections.ts',
    find: 'if (bound.ended || isBroken(error)) this.#retire(shared)',
    replace: '',
    also: [
      {
        file: 'stores/redis/client.ts',
        find: '    ...settings,\n    retryStrategy: never,',
        replace: '    retryStrategy: () => 20,',
      },
      {
        file: 'stores/redis/ioredis-link.ts',
        find: "      client.on('close', fail)\n",
        replace: '      resolve()\n',
      },
      {
        file: 'stores/redis/ioredis-link.ts',
        find: "    this.#client.on('close', () => listener(this.#cause))\n",
        replace: '',
      },
    ],
    caughtBy: 'a claim that was abandoned while the server was away is never sent',
  },
  {
    name: 'a write counts without the required replicas',
    file: store,
    find: 'if (Number(reached) >= waitForReplicas) return',
    replace: 'if (Number(reached) >= 0) return',
    caughtBy: 'nothing is granted before a replica has it',
  },
  {
    name: 'an outdated message is accepted',
    file: store,
    find: 'return heard.count > shown.count ? heard : undefined',
    replace: 'return heard',
    caughtBy: 'a watch ignores a message that is outdated',
  },
  {
    name: 'a message from another database is accepted',
    file: store,
    find: 'if (heard.origin === undefined || heard.origin !== shown.origin) return undefined',
    replace: '',
    caughtBy: 'a watch ignores a message from another database',
  },
  {
    name: 'a call continues after its connection was lost',
    file: 'stores/redis/shared-connections.ts',
    find: 'shared.connection.onLost((cause) => this.#lose(shared, cause))',
    replace: 'void this.#lose',
    caughtBy: 'a grant does not count if the wait for replicas used another connection',
  },
  {
    name: 'a writable replica is accepted',
    file: 'stores/redis/server-checks.ts',
    find: "if (answers.get('role') === 'slave') throw",
    replace: "if (answers.get('role') === 'replica') throw",
    caughtBy: 'a writable replica is refused',
  },
  {
    name: 'a server is checked only once',
    file: 'stores/redis/server-checks.ts',
    find: 'if (last && nowMs - last.atMs < examinedForMs) return',
    replace: 'if (last) return',
    caughtBy: "the server's settings are checked again periodically",
  },
  {
    name: 'a script is sent by its text after its call was abandoned',
    file: 'stores/redis/link.ts',
    find: ' || bound?.ended) throw error',
    replace: ') throw error',
    caughtBy: 'an abandoned claim sends nothing more',
  },
  {
    name: 'the version of a grant contains its attempt instead of a fresh id',
    file: store,
    find: 'return draft.writeId !== draft.attempt && ',
    replace: 'return ',
    caughtBy: 'a repeated attempt reuses no version after Redis was emptied',
  },
  {
    name: 'a refused database is ignored',
    file: 'stores/redis/ioredis-link.ts',
    find: '    await this.#selectDatabase()\n',
    replace: '    void this.#selectDatabase().catch(() => {})\n',
    caughtBy: 'the store reports a refused database instead of using another one',
  },
]
