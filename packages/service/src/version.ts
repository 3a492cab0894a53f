import { readFileSync } from 'node:fs'

/** Of this package. Its description is in the folder above this file and above the build. */
export const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  readonly version: string
}
