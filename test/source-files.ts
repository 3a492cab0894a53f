import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Where the repository is. */
export const root = join(import.meta.dirname, '..')

// Every line of .gitignore is a name, which may begin with a star.
const ignored = readFileSync(join(root, '.gitignore'), 'utf8').split('\n').filter(Boolean)

function isIgnored(path: string): boolean {
  return ignored.some((line) =>
    line.startsWith('*') ? path.endsWith(line.slice(1)) : `/${path}/`.includes(`/${line.replace(/\/$/, '')}/`),
  )
}

/** Every file of the project, relative to its root: what git would add. Without git, which a test need not have. */
export function listFiles(folder = ''): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.name === '.git' || isIgnored(path)) return []
    return entry.isDirectory() ? listFiles(path) : [path]
  })
}
