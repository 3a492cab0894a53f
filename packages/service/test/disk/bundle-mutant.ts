import { join } from 'node:path'
import { buildMutant, type Edit } from '../../../../test/mutants/mutant.ts'

/** Builds the service with one mutation. Returns the path of its entry. */
export async function bundleWith(mistake: Edit): Promise<string> {
  return join(await buildMutant('service', [mistake]), 'dist/index.js')
}
