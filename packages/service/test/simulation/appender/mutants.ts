import type { Mutation } from '../../../../../test/mutants/mutant.ts'
import type { AppenderOptions } from './index.ts'

/** A mutant of the appender, and the options with which model checking must find it. */
export interface AppenderMutant extends Mutation {
  readonly in: Omit<AppenderOptions, 'states'>
}

/** The maximum number of states until a mutant must be found. */
export const mutantStates = 15_000

const appender = { package: 'service', file: 'storage/appender.ts' } as const
const once = { replicas: 2, groups: 1, budget: 1 } as const

export const appenderMutants: readonly AppenderMutant[] = [
  {
    ...appender,
    name: 'a rejected append counts as one that did not take effect',
    find: "if (answer === 'unknown') return { ...state, open: { ...open, stage: 'unknown' } }",
    replace: "if (answer === 'unknown') return { ...state, open: undefined }",
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'a rejected append counts as one that took effect',
    find: "if (answer === 'unknown') return { ...state, open: { ...open, stage: 'unknown' } }",
    replace: "if (answer === 'unknown') return { ...state, open: undefined, head: batch.head }",
    in: { ...once, faults: ['lost'] },
  },
  {
    ...appender,
    name: 'a batch is settled by a read: it counts as done when the empty one is fenced',
    find: "if (answer === 'fenced') return { ...state, open: { ...open, stage: 'taken' } }",
    replace: `if (answer === 'fenced') {
      return { ...state, open: undefined, head: batch.head, unconfirmed: withGroups(unconfirmed, batch) }
    }`,
    in: { ...once, faults: ['cancelled'] },
  },
  {
    ...appender,
    name: 'a rejected batch counts as done when it is sent again',
    find: "if (answer === 'unknown') return",
    replace: "if (answer === 'unknown' && stage !== 'again') return",
    in: { ...once, budget: 2, faults: ['cancelled', 'lost'] },
  },
  {
    ...appender,
    name: 'the appender continues after the end',
    find: 'if (endReason) throw endReason',
    replace: '',
    in: { ...once, budget: 0, faults: [] },
  },
  {
    ...appender,
    name: 'the next batch is sent without settling the previous one',
    find: 'if (open) {',
    replace: 'if (open && !open) {',
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'a batch is sent again under another id',
    find: 'batch: isTaken ? open.batch : open.instead',
    replace: 'batch: isTaken ? batchAfter(state, open.batch.groups, source) : open.instead',
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'a batch is abandoned with a different batch each time',
    find: 'batch: isTaken ? open.batch : open.instead',
    replace: 'batch: isTaken ? open.batch : batchAfter(state, [], source)',
    in: { ...once, budget: 2, faults: ['lost', 'unheard'] },
  },
  {
    ...appender,
    name: 'a batch is abandoned repeatedly although it is stored',
    find: "if (answer === 'fenced') return { ...state, open: { ...open, stage: 'taken' } }",
    replace: "if (answer === 'fenced') return { ...state, open: { ...open, stage: 'unknown' } }",
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'the batch that settles the previous one counts as the requested one',
    find: 'isAsked: false }',
    replace: 'isAsked: true }',
    in: { ...once, faults: ['lost'] },
  },
  {
    ...appender,
    name: 'the old head is followed after a batch was abandoned',
    find: 'return { ...state, open: undefined, head: instead.head }',
    replace: 'return { ...state, open: undefined }',
    in: { ...once, faults: ['lost'] },
  },
  {
    ...appender,
    name: 'the unheard groups are forgotten',
    find: 'withGroups(unconfirmed, batch) :',
    replace: 'unconfirmed :',
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'a requested write is sent before the unheard groups are replaced',
    find: 'const isAsked = unconfirmed.length === 0',
    replace: 'const isAsked = unconfirmed.length === 0 || asked !== undefined',
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'all unheard groups count as replaced after the first batch',
    find: 'unconfirmed.slice(batch.groups.length)',
    replace: '[]',
    in: { ...once, groups: 2, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'the term of the found head is kept',
    find: '{ ...head, ...changes, seq',
    replace: '{ ...head, seq',
    in: { ...once, budget: 0, faults: [] },
  },
  {
    ...appender,
    name: 'the seq of the found head is kept',
    find: 'seq: head.seq + 1',
    replace: 'seq: head.seq',
    in: { ...once, budget: 0, faults: [] },
  },
  {
    package: 'service',
    file: 'storage/storage.ts',
    name: 'heads are compared without their batch',
    find: ' && one.batch === other.batch',
    replace: '',
    in: { ...once, faults: ['late'] },
  },
]
