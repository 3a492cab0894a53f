import type { Mutation } from '../../../../../test/mutants/mutant.ts'
import type { AppenderOptions } from './index.ts'

/** A planted mistake of the one who appends, and the circumstances in which exploration must find it. */
export interface AppenderMutant extends Mutation {
  readonly in: Omit<AppenderOptions, 'states'>
}

/** How many states may be known before a mutant must have been found. */
export const mutantStates = 15_000

const appender = { package: 'service', file: 'storage/appender.ts' } as const
const once = { replicas: 2, groups: 1, budget: 1 } as const

export const appenderMutants: readonly AppenderMutant[] = [
  {
    ...appender,
    name: 'take a rejection for an append that was not carried out',
    find: "if (answer === 'unknown') return { ...state, open: { ...open, stage: 'unknown' } }",
    replace: "if (answer === 'unknown') return { ...state, open: undefined }",
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'take a rejection for an append that was carried out',
    find: "if (answer === 'unknown') return { ...state, open: { ...open, stage: 'unknown' } }",
    replace: "if (answer === 'unknown') return { ...state, open: undefined, head: batch.head }",
    in: { ...once, faults: ['lost'] },
  },
  {
    ...appender,
    name: 'settle by what was only read: take the batch for done when the empty one is fenced',
    find: "if (answer === 'fenced') return { ...state, open: { ...open, stage: 'taken' } }",
    replace: `if (answer === 'fenced') {
      return { ...state, open: undefined, head: batch.head, unheard: withGroups(unheard, batch) }
    }`,
    in: { ...once, faults: ['cancelled'] },
  },
  {
    ...appender,
    name: 'take a rejected batch for done when it is sent again',
    find: "if (answer === 'unknown') return",
    replace: "if (answer === 'unknown' && stage !== 'again') return",
    in: { ...once, budget: 2, faults: ['cancelled', 'lost'] },
  },
  {
    ...appender,
    name: 'go on after the end',
    find: 'if (over) throw over',
    replace: '',
    in: { ...once, budget: 0, faults: [] },
  },
  {
    ...appender,
    name: 'send the next batch without settling the one before',
    find: 'if (open) {',
    replace: 'if (open && !open) {',
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'send the same batch again under another id',
    find: 'batch: isTaken ? open.batch : open.instead',
    replace: 'batch: isTaken ? batchAfter(state, open.batch.groups, source) : open.instead',
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'give a batch up by another batch each time',
    find: 'batch: isTaken ? open.batch : open.instead',
    replace: 'batch: isTaken ? open.batch : batchAfter(state, [], source)',
    in: { ...once, budget: 2, faults: ['lost', 'unheard'] },
  },
  {
    ...appender,
    name: 'give a batch up again and again although it is there',
    find: "if (answer === 'fenced') return { ...state, open: { ...open, stage: 'taken' } }",
    replace: "if (answer === 'fenced') return { ...state, open: { ...open, stage: 'unknown' } }",
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'take what settles the batch before for what was asked for',
    find: 'isAsked: false }',
    replace: 'isAsked: true }',
    in: { ...once, faults: ['lost'] },
  },
  {
    ...appender,
    name: 'follow the old head after a batch was given up',
    find: 'return { ...state, open: undefined, head: instead.head }',
    replace: 'return { ...state, open: undefined }',
    in: { ...once, faults: ['lost'] },
  },
  {
    ...appender,
    name: 'forget the unheard groups',
    find: 'withGroups(unheard, batch) :',
    replace: 'unheard :',
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'write what is asked for before the unheard groups are replaced',
    find: 'const isAsked = unheard.length === 0',
    replace: 'const isAsked = unheard.length === 0 || asked !== undefined',
    in: { ...once, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'take all unheard groups for replaced after the first batch',
    find: 'unheard.slice(batch.groups.length)',
    replace: '[]',
    in: { ...once, groups: 2, faults: ['unheard'] },
  },
  {
    ...appender,
    name: 'keep the term of the head that was found',
    find: '{ ...head, ...changes, seq',
    replace: '{ ...head, seq',
    in: { ...once, budget: 0, faults: [] },
  },
  {
    ...appender,
    name: 'keep the seq of the head that was found',
    find: 'seq: head.seq + 1',
    replace: 'seq: head.seq',
    in: { ...once, budget: 0, faults: [] },
  },
  {
    package: 'service',
    file: 'storage/storage.ts',
    name: 'compare heads without their batch',
    find: ' && one.batch === other.batch',
    replace: '',
    in: { ...once, faults: ['late'] },
  },
]
