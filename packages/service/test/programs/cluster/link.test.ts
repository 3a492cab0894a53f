/** What replicas say to each other, as an operator sets it up. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificate } from '../../../../tenure/test/kubernetes/certificate.ts'
import { preload } from '../../../../../test/preload.ts'
import { etcd } from '../../../../../test/servers/etcd.ts'
import { freePort } from '../../../../../test/servers/free-port.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { forkService } from '../../cluster/forked-service.ts'

/** A directory until the end of the test, with a certificate in it. */
function certificateFor(...names: string[]) {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-link-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const { cert, key } = makeCertificate({ names })
  const [certFile, keyFile] = [join(directory, 'cert.pem'), join(directory, 'key.pem')]
  writeFileSync(certFile, cert)
  writeFileSync(keyFile, key, { mode: 0o600 })
  return { certFile, keyFile }
}

describeWith(etcd, 'replicas on etcd', (server) => {
  const newStore = () => `${server().url.replace('http:', 'etcd:')}/${randomUUID()}`

  test('listen for each other on a kernel without IPv6', async () => {
    const port = await freePort()
    const service = await forkService(
      {
        store: newStore(),
        advertise: `https://replica.example:${port}`,
        port: 0,
        tls: certificateFor('replica.example'),
      },
      { LD_PRELOAD: preload(join(import.meta.dirname, '../../cluster/no-ipv6.c')) },
    )
    onTestFinished(() => service.close())
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.destroy()
    expect(service.url).toMatch(/^https:/)
  })
})
