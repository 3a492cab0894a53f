import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The root of the repository. */
export const root = join(import.meta.dirname, '..')

// Every line of .gitignore is a name, which may start with an asterisk.
const ignored = readFileSync(join(root, '.gitignore'), 'utf8').split('\n').filter(Boolean)

function isIgnored(path: string): boolean {
  return ignored.some((line) =>
    line.startsWith('*') ? path.endsWith(line.slice(1)) : `/${path}/`.includes(`/${line.replace(/\/$/, '')}/`),
  )
}

/** Returns every file of the project that git would add, relative to its root. It does not need git. */
export function listFiles(folder = ''): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.name === '.git' || isIgnored(path)) return []
    return entry.isDirectory() ? listFiles(path) : [path]
  })
}
