import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the file store, and what a power failure loses because of it. */
export interface PowerMutant extends Mutation {
  readonly finds: RegExp
}

/** The test must catch every one of these. */
export const powerMutants: readonly PowerMutant[] = [
  {
    name: 'a record becomes readable before its term is durable',
    file: 'stores/file/index.ts',
    find: 'clock }, isGrant)',
    replace: 'clock }, false)',
    finds: /^after rename \S+ \S+\.json: term \d is granted again$/,
  },
  {
    name: 'a grant is answered before its file name is durable',
    file: 'stores/file/index.ts',
    find: 'signOfLife }, durable)',
    replace: 'signOfLife }, false)',
    finds: /^after the answer 1\.1\.\w+: the grant of term 1 is gone$/,
  },
  {
    name: 'a checkpoint is answered before its file name is durable',
    file: 'stores/file/index.ts',
    find: ' || record.checkpoint !== lease.record.checkpoint',
    replace: '',
    finds: /^after the answer 1\.2\.\w+: the checkpoint "first" is gone$/,
  },
  {
    name: 'a file is renamed before its content is durable',
    file: 'stores/file/filesystem.ts',
    find: 'await file.sync()',
    replace: '',
    finds: /nobody can lead: .+ it is not JSON/,
  },
  {
    name: 'the directory is created without making its name durable',
    file: 'stores/file/filesystem.ts',
    find: 'await syncDirectory(dirname(directory))',
    replace: 'await Promise.resolve()',
    finds: /^after the answer 1\.1\.\w+: term 1 is granted again$/,
  },
]
