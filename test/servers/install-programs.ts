import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import {
  cacheDirectory,
  cachePath,
  find,
  npmFolder,
  type GoModule,
  type Program,
  type PythonPackages,
} from './find-program.ts'
import { installPackages } from './npm-packages.ts'
import { programs } from './programs.ts'

/** Installs every missing program that can be installed, or only the named ones. Returns how many are still missing. */
export async function installMissing(say: (line: string) => void, names: readonly string[] = []): Promise<number> {
  const unknown = names.filter((name) => !Object.hasOwn(programs, name))
  if (unknown.length > 0)
    throw new Error(`unknown program ${unknown.join(', ')}; the programs are ${Object.keys(programs).join(', ')}`)
  mkdirSync(cacheDirectory, { recursive: true })
  let missing = 0
  for (const [name, program] of Object.entries(programs)) {
    if (names.length > 0 && !names.includes(name)) continue
    if ('path' in find(program)) continue
    const failure = await install(program, say)
    const found = find(program)
    if ('path' in found) say(`${program.binary}: ${found.path}`)
    else {
      missing++
      say(`${program.binary} is missing: ${failure ?? found.missing}`)
    }
  }
  return missing
}

/** Returns why the installation failed, or undefined. */
async function install(program: Program, say: (line: string) => void): Promise<string | undefined> {
  const { binary, source, variable } = program
  if (process.env[variable]) return `${variable}=${process.env[variable]} is not an executable file`
  if ('goModule' in source) return build(program, source, say)
  if ('pythonRequirements' in source) return installPython(program, source, say)
  if ('npmPackages' in source) {
    say(`${binary}: installing ${source.npmPackages.join(' ')} with npm into a separate folder`)
    const installed = await installPackages(npmFolder(source), source.npmPackages)
    return 'missing' in installed ? installed.missing : undefined
  }
  const byHand = `apt-get install ${source.aptPackage}`
  if (process.getuid?.() !== 0) return `only root can install it: ${byHand}`
  if (!has('apt-get')) return `there is no apt-get; install ${binary}, or set ${variable} to its path`
  say(`${binary}: installing ${source.aptPackage}`)
  // The sources of this machine stay unchanged: a further suite is used only for this installation.
  const command = `set -- "$1" "$2" "$(mktemp -d)" && trap 'rm -r "$3"' EXIT && cp -r /etc/apt/sources.list.d/. "$3" &&
    if [ -n "$2" ]; then
      mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' \
        "Codename: \${2%-backports}" | head -1) && [ -n "$mirror" ] && echo "deb $mirror $2 main" > "$3/further.list"
    fi &&
    apt-get -o "Dir::Etc::sourceparts=$3" update -qq &&
    apt-get -o "Dir::Etc::sourceparts=$3" install -y -qq --no-install-recommends \${2:+-t "$2"} "$1"`
  // RUNLEVEL prevents Debian from starting the service of the package.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  return run('apt', command, [source.aptPackage, source.suite ?? ''], { env })
}

async function build(program: Program, source: GoModule, say: (line: string) => void): Promise<string | undefined> {
  if (!has('go'))
    return `building it needs Go 1.24 or newer on PATH; or set ${program.variable} to the path of the program`
  const started = performance.now()
  const passed = () => `${Math.round((performance.now() - started) / 1_000)} s`
  say(`${program.binary}: building with Go, which takes about ${source.buildMinutes} minutes once`)
  const progress = setInterval(() => say(`${program.binary}: still building after ${passed()}`), 60_000)
  // An interrupted build leaves no partial program, and a process that waited for the lock does not build again.
  const command = `[ -x "$1" ] || {
    if [ -f overlay.sh ]; then sh overlay.sh "$1.overlay" && set -- "$1" "$2" "-overlay=$1.overlay/overlay.json"; fi &&
    nice go build -trimpath -ldflags "-s -w $2" $3 -o "$1.$$" . && mv "$1.$$" "$1"; }`
  const env = { ...process.env, CGO_ENABLED: '0' }
  try {
    return await run(program.binary, command, [cachePath(program), source.linkerFlags ?? ''], {
      env,
      cwd: source.goModule,
    })
  } finally {
    clearInterval(progress)
  }
}

async function installPython(
  program: Program,
  { pythonRequirements, file = `bin/${program.binary}` }: PythonPackages,
  say: (line: string) => void,
): Promise<string | undefined> {
  if (!has('python3'))
    return `it needs Python 3.10 or newer on PATH; or set ${program.variable} to the path of the program`
  say(`${program.binary}: installing with pip into a separate folder`)
  // The program itself is written last, so an interrupted installation leaves no program behind.
  const command = `[ -x "$1" ] || {
    rm -rf "$1.venv" && python3 -m venv "$1.venv" &&
    "$1.venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$2" &&
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$1.venv"/$3 > "$1.$$" && chmod +x "$1.$$" && mv "$1.$$" "$1"; }`
  return run(program.binary, command, [cachePath(program), pythonRequirements, file], { env: process.env })
}

interface RunOptions {
  readonly env: NodeJS.ProcessEnv
  readonly cwd?: string
}

/** Runs a shell command. With `flock`, only one runs at a time on this machine. Returns why it failed, or undefined. */
async function run(name: string, command: string, args: string[], options: RunOptions): Promise<string | undefined> {
  const script = `exec 9> "$0"; if command -v flock > /dev/null; then flock 9; fi; ${command}`
  const child = spawn('sh', ['-c', script, `${cacheDirectory}/${name}.lock`, ...args], {
    ...options,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-4_000)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return code === 0 ? undefined : `the installation failed (exit code ${code}):\n${output.trim()}`
}

function has(command: string): boolean {
  return spawnSync('sh', ['-c', 'command -v "$1"', 'sh', command]).status === 0
}
