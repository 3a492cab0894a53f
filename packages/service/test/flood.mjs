// Floods a service: flood.mjs URL CONNECTIONS BODY_FILE [TOKEN]. Each connection sends the body to POST /v1/renew again
// as soon as it has a response. It ends when standard input ends, and then prints the number of responses by status.
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'

const [, , url = '', connections = '1', file = '', token] = process.argv
const { hostname, port, host } = new URL(url)
const body = readFileSync(file)
const head = [
  'POST /v1/renew HTTP/1.1',
  `host: ${host}`,
  'content-type: application/json',
  `content-length: ${body.length}`,
  ...(token ? [`authorization: Bearer ${token}`] : []),
]
const request = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body])
/** @type {Record<string, number>} */
const statuses = {}

function begin() {
  const socket = connect({ host: hostname, port: Number(port) })
  let received = ''
  let missing = 0
  socket.on('connect', () => socket.write(request))
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1')
    for (;;) {
      const end = received.indexOf('\r\n\r\n')
      if (missing === 0 && end < 0) return
      if (missing === 0) {
        const status = received.slice(9, 12)
        statuses[status] = (statuses[status] ?? 0) + 1
        missing = Number(/content-length: (\d+)/i.exec(received.slice(0, end))?.[1] ?? 0)
        received = received.slice(end + 4)
      }
      if (received.length < missing) return
      received = received.slice(missing)
      missing = 0
      socket.write(request)
    }
  })
  socket.on('error', () => {})
  socket.on('close', () => setTimeout(begin, 10))
}

for (let count = 0; count < Number(connections); count++) begin()
process.stdin.resume()
process.stdin.on('end', () => {
  console.log(JSON.stringify(statuses))
  process.exit()
})
