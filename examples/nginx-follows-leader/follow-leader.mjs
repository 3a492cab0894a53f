// Keeps an nginx upstream pointed at the leader, whose identity is its address:
//
//   tenure watch my-app --json | node follow-leader.mjs /etc/nginx/leader.conf nginx -s reload
import { spawnSync } from 'node:child_process'
import { renameSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const [file = 'leader.conf', command = 'nginx', ...args] = process.argv.slice(2)
let written = ''

for await (const line of createInterface({ input: process.stdin })) {
  const { leader } = JSON.parse(line)
  const address = leader?.holder ?? ''
  // Every candidate chooses its own name, and the name ends up in nginx's configuration. So accept only addresses.
  const isAddress = /^([\w.-]+|\[[0-9a-f:]+\]):\d{1,5}$/i.test(address)
  if (leader && !isAddress) console.error(`"${address}" leads, but is not an address.`)
  // An upstream needs a server. If that is down, nginx answers 502 at once.
  const text = `upstream my_app { server ${isAddress ? address : '127.0.0.1:1 down'}; }\n`
  if (text === written) continue
  // Replace the file atomically, so that nginx never reads half of it.
  writeFileSync(`${file}.new`, text)
  renameSync(`${file}.new`, file)
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  // Exit, so that a restart reads the current state again and no change is lost.
  if (status !== 0) fail(`${command} failed, so nginx keeps its old configuration.`)
  written = text
  console.error(isAddress ? `nginx sends to ${address}` : 'nobody leads')
}
fail('tenure watch has ended.')

/** @param {string} text */
function fail(text) {
  console.error(text)
  process.exit(1)
}
