/** Lets a Node process also find a folder's files at another path, as a mount would, but only in this process. */
export function mount(place: string, folder: string): string {
  const script = `
    import fs from 'node:fs'
    import { syncBuiltinESMExports } from 'node:module'
    const { readFileSync } = fs
    const [place, folder] = ${JSON.stringify([`${place}/`, `${folder}/`])}
    const moved = (path) => (typeof path === 'string' ? path.replace(place, folder) : path)
    fs.readFileSync = (path, ...rest) => readFileSync(moved(path), ...rest)
    syncBuiltinESMExports()`
  return `--import=data:text/javascript,${encodeURIComponent(script)}`
}
