import { existsSync, readFileSync } from 'node:fs'

/** The version of this package. package.json is one folder above the build, and two above this file. */
export function versionOf(): string {
  const [file = ''] = ['../package.json', '../../package.json']
    .map((path) => new URL(path, import.meta.url))
    .filter((url) => existsSync(url))
  const text = readFileSync(file, 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
