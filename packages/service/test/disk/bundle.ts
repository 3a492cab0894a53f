import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { rolldown } from 'rolldown'
import { onTestFinished } from 'vitest'

const folder = join(import.meta.dirname, '..', '..')

/** A text that occurs exactly once in the sources, and what stands there instead. */
export interface Mistake {
  readonly find: string
  readonly replace: string
}

/** The service with one mistake in it, built for this test. Returns its entry. */
export async function bundleWith(mistake: Mistake): Promise<string> {
  mkdirSync(join(folder, '.mutants'), { recursive: true })
  const directory = mkdtempSync(join(folder, '.mutants', 'service-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  let planted = 0
  const built = await rolldown({
    input: join(folder, 'src', 'index.ts'),
    platform: 'node',
    external: /^[^./]/,
    plugins: [
      {
        name: 'mistake',
        transform(code) {
          const parts = code.split(mistake.find)
          planted += parts.length - 1
          return parts.join(mistake.replace)
        },
      },
    ],
  })
  const entry = join(directory, 'index.js')
  await built.write({ file: entry, format: 'esm' })
  await built.close()
  if (planted !== 1) throw new Error(`The text to replace occurs ${planted} times: ${mistake.find}`)
  return entry
}
