import { describe, test } from 'vitest'
import * as library from '../../../src/index.ts'
import { checks, optionChecks } from './checks.ts'
import { handOverChecks } from './hand-over-checks.ts'

describe('presence', () => {
  for (const [name, check] of Object.entries({ ...checks, ...handOverChecks, ...optionChecks }))
    test(name, () => check(library))
})
