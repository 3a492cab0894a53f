import { readFileSync } from 'node:fs'

/** The version of this package. package.json is one folder above both this file and its build. */
export function versionOf(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
