import { readFileSync } from 'node:fs'

/** The version of this package. package.json is one folder above both this file and its build. */
export const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  readonly version: string
}
