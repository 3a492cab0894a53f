import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * Imports a TypeScript file of this repository into a program. Node.js 20 cannot do that on its own.
 * @param {string} file relative to the root
 * @returns {Promise<unknown>}
 */
export async function load(file) {
  const bundle = await rolldown({
    input: join(root, file),
    platform: 'node',
    // The private package exists only as source.
    external: /^(?!@tenure\/internal\/)[^./]/,
    // A module that looks for files next to itself must find them next to its source, not next to the bundle.
    plugins: [
      {
        name: 'dirname',
        transform: (code, id) => code.replaceAll('import.meta.dirname', JSON.stringify(dirname(id))),
      },
    ],
  })
  const { output } = await bundle.generate({ format: 'esm', codeSplitting: false })
  await bundle.close()
  // Node resolves packages from this folder.
  const target = join(root, 'node_modules/.cache', `${basename(file, '.ts')}-${process.pid}.mjs`)
  mkdirSync(dirname(target), { recursive: true })
  writeFileSync(target, output[0].code)
  try {
    return await import(pathToFileURL(target).href)
  } finally {
    rmSync(target)
  }
}
