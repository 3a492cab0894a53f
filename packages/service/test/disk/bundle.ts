import { join } from 'node:path'
import { buildMutant, type Edit } from '../../../../test/mutants/mutant.ts'

/** The service with one mistake in it, built for this test. Returns its entry. */
export async function bundleWith(mistake: Edit): Promise<string> {
  return join(await buildMutant('service', [mistake]), 'dist/index.js')
}
