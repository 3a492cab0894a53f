import { readFile } from 'node:fs/promises'

/** A text file that an option names. */
export async function readNamed(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new Error(`${option}: ${reasonOf(error)}`, { cause: error })
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The blocks of a PEM file, with their names. */
export function pemBlocks(text: string): { readonly label: string; readonly pem: string }[] {
  const blocks = text.matchAll(/-----BEGIN ([A-Z0-9 ]{1,40})-----[^-]*-----END \1-----/g)
  return Array.from(blocks, ([pem, label = '']) => ({ label, pem }))
}
