import { readFileSync } from 'node:fs'

/** Of this package. Its description is in the folder above this file and above the build. */
export function versionOf(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
