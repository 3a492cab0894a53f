import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A fault in the Redis store, and the check that must notice it. */
export interface RedisMutation extends Mutation {
  /** A case of the conformance suite, or a check of redis-mutants.test.ts. */
  readonly caughtBy: string
}

const script = 'stores/redis/script.ts'
const store = 'stores/redis.ts'

/** Every one of them must be noticed on a real Redis. */
export const redisMutations: readonly RedisMutation[] = [
  {
    name: 'keys are written whatever they hold',
    file: script,
    find: "if ARGV[1] ~= version or ARGV[2] ~= (term and '=' .. term or '${absent}') then",
    replace: "if ARGV[1] == '?' then",
    caughtBy: 'exactly one of many renewals of the same version wins',
  },
  {
    name: 'a record is written whatever its version',
    file: script,
    find: 'ARGV[1] ~= version or',
    replace: "ARGV[1] == '?' or",
    caughtBy: 'renew and release of a removed record are refused and do not recreate it',
  },
  {
    name: 'a take-over does not look at the term that is kept apart',
    file: script,
    find: "or ARGV[2] ~= (term and '=' .. term or '${absent}')",
    replace: '',
    caughtBy: 'a term that somebody raised is not granted again',
  },
  {
    name: 'an empty key counts as none',
    file: script,
    find: "record and '=' .. string.match(record, '^[^ ]*') or '${absent}'",
    replace: "record and #record > 0 and '=' .. string.match(record, '^[^ ]*') or '${absent}'",
    caughtBy: 'an empty key is not written over',
  },
  {
    name: 'the highest term goes with the record',
    file: store,
    find: 'const kept = term === undefined ? undefined',
    replace: 'const kept = term === undefined || !record ? undefined',
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a version has no mark of its own write',
    file: store,
    find: 'const version = `${count}-${nonce}`',
    replace: 'const version = `${count}-${draft.attempt}`',
    caughtBy: 'no version comes back when Redis was emptied',
  },
  {
    name: 'a key of the store expires',
    file: script,
    find: "redis.call('MSET', KEYS[1], ARGV[3], KEYS[2], ARGV[4])",
    replace: "redis.call('MSET', KEYS[1], ARGV[3], KEYS[2], ARGV[4]) redis.call('PEXPIRE', KEYS[2], 600000)",
    caughtBy: 'no key expires',
  },
  {
    name: 'a read asks for no right to write',
    file: script,
    find: "  redis.call('PERSIST', KEYS[2])\n",
    replace: '',
    caughtBy: 'a replica is not read',
  },
  {
    name: 'a refusal shows what was guessed',
    file: store,
    find: 'return { ok: false, found: this.#foundOf(election, pair) }',
    replace: 'return { ok: false, found: over }',
    caughtBy: 'a refusal shows who leads to a candidate that has read nothing',
  },
  {
    name: 'an unknown script is an error',
    file: 'stores/redis/link.ts',
    find: "if (replyCodeOf(error) !== 'NOSCRIPT' ||",
    replace: "if (replyCodeOf(error) !== 'NOSUCHSCRIPT' ||",
    caughtBy: 'scripts may be forgotten',
  },
  {
    name: 'a server that drops keys is used',
    file: 'stores/redis/examiner.ts',
    find: "if (policy.startsWith('allkeys-')) throw",
    replace: "if (policy === 'allkeys') throw",
    caughtBy: 'nothing is kept where keys are dropped',
  },
  {
    name: 'a connection on which a call hangs is used for the next one',
    file: 'stores/redis/connections.ts',
    find: 'if (bound.ended || isBroken(error)) this.#retire(shared)',
    replace: '',
    caughtBy: 'a renewal does not wait behind one that hangs',
  },
  {
    name: 'a claim that was given up is sent when the server is back',
    file: 'stores/redis/connections.ts',
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
    caughtBy: 'a claim that was given up while the server was away is never sent',
  },
  {
    name: 'replicas are waited for, whether they answer or not',
    file: store,
    find: 'if (Number(reached) >= waitForReplicas) return',
    replace: 'if (Number(reached) >= 0) return',
    caughtBy: 'nothing is granted that no replica has',
  },
  {
    name: 'a message counts, however old it is',
    file: store,
    find: 'return heard.count > shown.count ? heard : undefined',
    replace: 'return heard',
    caughtBy: 'a message that is late shows nothing old',
  },
  {
    name: 'a message counts, whichever database it is from',
    file: store,
    find: 'if (heard.origin === undefined || heard.origin !== shown.origin) return undefined',
    replace: '',
    caughtBy: 'a message of another database shows nothing',
  },
  {
    name: 'a call goes on when its connection was lost',
    file: 'stores/redis/connections.ts',
    find: 'shared.connection.onLost((cause) => this.#lose(shared, cause))',
    replace: 'void this.#lose',
    caughtBy: 'nothing is granted that was waited for on another connection',
  },
  {
    name: 'a replica is used if it takes writes',
    file: 'stores/redis/examiner.ts',
    find: "if (answers.get('role') === 'slave') throw",
    replace: "if (answers.get('role') === 'replica') throw",
    caughtBy: 'nothing is kept on a replica that takes writes',
  },
  {
    name: 'a server is examined once and for all',
    file: 'stores/redis/examiner.ts',
    find: 'if (last && nowMs - last.atMs < examinedForMs) return',
    replace: 'if (last) return',
    caughtBy: 'settings are looked at again',
  },
  {
    name: 'a script is sent by its text after its call was given up',
    file: 'stores/redis/link.ts',
    find: ' || bound?.ended) throw error',
    replace: ') throw error',
    caughtBy: 'nothing is sent of a claim that was given up',
  },
  {
    name: 'the version of a grant has the mark of its attempt',
    file: store,
    find: 'return draft.mark !== draft.attempt && ',
    replace: 'return ',
    caughtBy: 'no version of a repeated attempt comes back when Redis was emptied',
  },
  {
    name: 'a database that is refused is not missed',
    file: 'stores/redis/ioredis-link.ts',
    find: '    await this.#selectDatabase()\n',
    replace: '    void this.#selectDatabase().catch(() => {})\n',
    caughtBy: 'nothing is kept in another database than was asked for',
  },
]
