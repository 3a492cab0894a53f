import { test } from 'vitest'
import { expectConformanceFinds } from '../conformance/find-store-mutant.ts'
import { storeMutations } from '../conformance/store-mutants.ts'

test.each(storeMutations)('the conformance suite detects the store mutant: $name', expectConformanceFinds)
