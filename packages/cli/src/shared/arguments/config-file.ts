import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { messageOf } from '@tenure/internal/message'
import { isObject } from '@tenure/internal/objects'
import { usageError } from './errors.ts'
import type { Configuration, Sources } from './settings.ts'

/** Reads a configuration file: one JSON object. Paths in it are relative to the file. */
export function readConfigFile(path: string): NonNullable<Sources['file']> {
  return { path, from: { directory: dirname(resolve(path)) }, values: parse(path, read(path)) }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw usageError([`The configuration file ${path} cannot be read: ${messageOf(error)}`])
  }
}

function parse(path: string, text: string): Configuration {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw usageError([`The configuration file ${path} is not JSON: ${messageOf(error)}`])
  }
  if (!isObject(value)) throw usageError([`The configuration file ${path} must contain one JSON object.`])
  return value
}
