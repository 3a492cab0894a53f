import { expect, test } from 'vitest'
import * as real from '../../src/replication/peer-calls.ts'
import { loadMutant } from '../../../../test/mutants/mutant.ts'

const claim = {
  groupId: 'jobs',
  nodeId: 'a',
  attempt: 'attempt 1',
  attemptIsOnce: false,
  ttlMs: 5_000,
  metadata: '{}',
  waitMs: 0,
}

/** Arguments that a replica of another version may send. */
const foreign: readonly (readonly [string, unknown])[] = [
  ['no claim', []],
  ['a claim without an attempt', [{ ...claim, attempt: undefined }]],
  ['a duration that is text', [{ ...claim, ttlMs: '5000' }]],
  ['metadata that is an object', [{ ...claim, metadata: {} }]],
  ['a term that is negative', [{ ...claim, afterTerm: -1 }]],
  ['a node id that is a number', [{ ...claim, nodeId: 7 }]],
  ['another argument after the claim', [claim, 'now']],
]

function accepted({ parseCall }: typeof real): string[] {
  return foreign.flatMap(([what, args]) => (parseCall('campaign', args) ? what : []))
}

test('a forwarded campaign is carried out only if its arguments have the right types', () => {
  expect(real.parseCall('campaign', [claim])).toBeDefined()
  expect(real.parseCall('campaign', [{ ...claim, afterTerm: 4, writeId: 'w', instance: 'i' }])).toBeDefined()
  expect(accepted(real)).toEqual([])
})

test('the check of a forwarded campaign detects a replica that trusts the types of its peers', async () => {
  const mutation = {
    package: 'service',
    name: 'trust the types of a peer',
    file: 'replication/peer-calls.ts',
    find: '  if (!isSound(args)) return undefined\n',
    replace: '  void isSound\n',
  } as const
  const { mutant } = await loadMutant<{ mutant: typeof real }>(mutation, {
    mutant: '../../service/src/replication/peer-calls.ts',
  })
  expect(accepted(mutant)).toEqual(foreign.map(([what]) => what))
})
