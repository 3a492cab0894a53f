import { test } from 'vitest'
import { expectConformanceFinds } from './find-store-mutant.ts'
import { storeMutations } from './store-mutants.ts'

test.each(storeMutations)('the conformance suite detects the store mutant: $name', expectConformanceFinds)
