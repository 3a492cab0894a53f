import { describe, test } from 'vitest'
import * as library from '../../../src/index.ts'
import { checks } from './checks.ts'

describe('the elector around the algorithm', () => {
  for (const [name, check] of Object.entries(checks)) test(name, () => check(library))
})
