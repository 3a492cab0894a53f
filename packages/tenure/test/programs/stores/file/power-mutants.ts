import type { Mutation } from '../../../../../../test/mutants/mutant.ts'

/** The file store with one mistake, and what a power cut then does. */
export interface PowerMutant extends Mutation {
  readonly finds: RegExp
}

/** Every one of them must be found. */
export const powerMutants: readonly PowerMutant[] = [
  {
    name: 'a record can be read before its term is sure to last',
    file: 'stores/file.ts',
    find: 'clock }, isGrant)',
    replace: 'clock }, false)',
    finds: /^after rename \S+ \S+\.json: term \d is granted again$/,
  },
  {
    name: 'a grant is told before its name is sure to last',
    file: 'stores/file.ts',
    find: 'signOfLife }, durable)',
    replace: 'signOfLife }, false)',
    finds: /^after being told of 1\.1\.\w+: the grant of term 1 is gone$/,
  },
  {
    name: 'a carry is told before its name is sure to last',
    file: 'stores/file.ts',
    find: ' || record.carry !== lease.record.carry',
    replace: '',
    finds: /^after being told of 1\.2\.\w+: the carry "first" is gone$/,
  },
  {
    name: 'a file is put in place before its text is sure to last',
    file: 'stores/file/filesystem.ts',
    find: 'await file.sync()',
    replace: '',
    finds: /nobody can lead: .+ it is not JSON/,
  },
  {
    name: 'the directory is made and its name may be lost',
    file: 'stores/file/filesystem.ts',
    find: 'await syncDirectory(dirname(directory))',
    replace: 'await Promise.resolve()',
    finds: /^after being told of 1\.1\.\w+: term 1 is granted again$/,
  },
]
