// Writes the README of the package "tenure": the README of the repository, with links that work from anywhere.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const repository = 'https://github.com/tenure-js/tenure/blob/main'
/** Images use this address. The address above leads to a page that contains the image. */
const files = 'https://raw.githubusercontent.com/tenure-js/tenure/main'

export const packageReadmeFile = join(root, 'packages/tenure/README.md')

/** Returns the content of that file. */
export function packageReadme() {
  const text = readFileSync(join(root, 'README.md'), 'utf8')
  return text
    .replaceAll(/\]\((?![a-z]+:|#)([^)\s]+\.svg)\)/g, `](${files}/$1)`)
    .replaceAll(/\]\((?![a-z]+:|#)([^)\s]+)\)/g, `](${repository}/$1)`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(packageReadmeFile, packageReadme())
