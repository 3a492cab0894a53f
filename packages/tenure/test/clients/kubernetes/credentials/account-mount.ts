import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/**
 * A directory that is filled in the same way as the kubelet does it: files are links through `..data`, which is swapped
 * atomically.
 */
export class Mount {
  readonly folder = mkdtempSync(join(tmpdir(), 'tenure-account-'))
  #versions = 0

  constructor(contents: Readonly<Record<string, string>>) {
    onTestFinished(() => rmSync(this.folder, { recursive: true }))
    this.replace(contents)
    for (const name of Object.keys(contents)) symlinkSync(join('..data', name), join(this.folder, name))
  }

  replace(contents: Readonly<Record<string, string>>): void {
    const version = `..2030_01_01_${++this.#versions}`
    mkdirSync(join(this.folder, version))
    for (const [name, text] of Object.entries(contents)) writeFileSync(join(this.folder, version, name), text)
    symlinkSync(version, join(this.folder, '..data_tmp'))
    renameSync(join(this.folder, '..data_tmp'), join(this.folder, '..data'))
    if (this.#versions > 1) rmSync(join(this.folder, `..2030_01_01_${this.#versions - 1}`), { recursive: true })
  }
}
