import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { usageError } from './errors.ts'
import type { Configuration, Sources } from './settings.ts'

/** Reads a configuration file: one JSON object. Relative paths in it begin where the file is. */
export function readConfigFile(path: string): NonNullable<Sources['file']> {
  return { path, from: { directory: dirname(resolve(path)) }, values: parse(path, read(path)) }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw usageError([`The configuration file ${path} cannot be read: ${reasonOf(error)}`])
  }
}

function parse(path: string, text: string): Configuration {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw usageError([`The configuration file ${path} is not JSON: ${reasonOf(error)}`])
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw usageError([`The configuration file ${path} must hold one JSON object.`])
  }
  return value as Configuration
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
