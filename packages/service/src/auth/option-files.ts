import { readFile, stat } from 'node:fs/promises'
import { wrongOption } from '../common/errors.ts'
import { messageOf } from '@tenure/internal/message'

/** Reads a text file that an option names. */
export async function readOptionFile(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw wrongOption(option, ': ', messageOf(error), error)
  }
}

/** Runs `use`, and prefixes any error with the name of the option. */
export function withOptionName<T>(option: string, use: () => T, link = ': '): T {
  try {
    return use()
  } catch (error) {
    throw wrongOption(option, link, messageOf(error), error)
  }
}

/**
 * Returns the blocks of a PEM file, with their labels. Throws if a block is incomplete, which means that the file is
 * still being written. Otherwise the missing blocks would go unnoticed.
 */
export function pemBlocks(text: string): { readonly label: string; readonly pem: string }[] {
  const blocks = Array.from(
    text.matchAll(/-----BEGIN ([A-Z0-9 ]{1,40})-----[^-]*-----END \1-----/g),
    ([pem, label = '']) => ({ label, pem }),
  )
  const rest = blocks.reduce((left, { pem }) => left.replace(pem, ''), text)
  if (rest.includes('-----')) throw new Error('a PEM block in it is incomplete')
  return blocks
}

/** Returns whether any user on this machine may read or write the file. */
export async function worldPermissions(path: string): Promise<{ readonly read: boolean; readonly write: boolean }> {
  const { mode } = await stat(path)
  return { read: (mode & 0o004) !== 0, write: (mode & 0o002) !== 0 }
}
