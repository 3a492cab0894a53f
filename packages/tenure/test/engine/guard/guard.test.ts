import { describe, test } from 'vitest'
import * as electorGuard from '../../../src/engine/guard/elector-guard.ts'
import * as guard from '../../../src/engine/guard/guard.ts'
import * as storeOrigin from '../../../src/engine/guard/store-origin.ts'
import * as memory from '../../../src/stores/memory/index.ts'
import { checks } from './checks.ts'

describe('the rules of the guard', () => {
  test.each(Object.entries(checks))('%s', (_, check) => check({ guard, electorGuard, storeOrigin, memory }))
})
