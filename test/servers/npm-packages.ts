import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cacheDirectory, type Found } from './find-program.ts'

/**
 * Installs packages that conflict with the project's own into a folder of the cache, without their install scripts.
 * Returns the folder that contains their `node_modules`, or why the installation failed.
 */
export function npmPackages(name: string, packages: readonly string[]): Promise<Found> {
  return installPackages(join(cacheDirectory, '..', 'npm', name), packages)
}

/** Installs packages into a folder, unless it exists. Returns the folder, or why the installation failed. */
export async function installPackages(path: string, packages: readonly string[]): Promise<Found> {
  if (existsSync(path)) return { path }
  const unfinished = `${path}.${process.pid}`
  mkdirSync(unfinished, { recursive: true })
  try {
    writeFileSync(join(unfinished, 'package.json'), '{}\n')
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--fetch-retries=1']
    await promisify(execFile)('npm', ['install', '--prefix', unfinished, ...options, ...packages], { timeout: 300_000 })
    // Another process may have installed the packages in the meantime.
    if (!existsSync(path)) renameSync(unfinished, path)
    return { path }
  } catch (error) {
    const [reason = 'npm install failed'] = /^npm error .*/m.exec(String(error)) ?? []
    return { missing: `npm cannot install ${packages.join(' ')}: ${reason}` }
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
}
