/** The commands of docs/guide/multicluster.md, on a real API server. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readDocument } from '../documents.ts'
import { kubeConfigOf } from '../kubernetes/kube-config.ts'
import { whyNoKubectl } from '../kubernetes/kubectl.ts'
import { installCrd } from '../servers/multicluster-crd.ts'
import { describeWithCluster, describeWithRight } from '../servers/suite.ts'

const page = readDocument('docs/guide/multicluster.md')
const resources = '/apis/tenure.dev/v1alpha1/namespaces/jobs/multiclusterleases'

describeWithRight(whyNoKubectl(), 'kubectl', () => {
  describeWithCluster('the commands of docs/guide/multicluster.md', (cluster) => {
    test('kubectl shows the leader in the columns that docs/guide/multicluster.md shows, and describes the conditions', async () => {
      const { admin, directory } = cluster()
      await installCrd(cluster())
      const kubeConfig = join(directory, `page-${process.pid}.kubeconfig`)
      writeFileSync(kubeConfig, kubeConfigOf(cluster()))
      const kubectl = (command: string) =>
        execFileSync('kubectl', [`--kubeconfig=${kubeConfig}`, ...command.split(' ').slice(1)], { encoding: 'utf8' })
      await admin.request('POST', '/api/v1/namespaces', { metadata: { name: 'jobs' } })
      onTestFinished(() => admin.request('DELETE', `${resources}/report`).then(() => undefined))
      const condition = {
        type: 'Ready',
        status: 'True',
        reason: 'Relaying',
        message: 'Requests are relayed to the global store.',
        lastTransitionTime: new Date().toISOString(),
      }
      const kind = { apiVersion: 'tenure.dev/v1alpha1', kind: 'MultiClusterLease' }
      const spec = { holderIdentity: 'web-0', leaseDurationSeconds: 15, renewTime: new Date().toISOString() }
      const made = await admin.request('POST', resources, { ...kind, metadata: { name: 'report' }, spec })
      expect(made.status, JSON.stringify(made.body)).toBe(201)
      const shown = { leader: 'east/web-0', globalHolderIdentity: 'east/web-0', cluster: 'east', term: 7 }
      const status = { ...shown, renewTime: new Date().toISOString(), conditions: [condition] }
      const patched = await admin.request('PATCH', `${resources}/report/status`, { status })
      expect(patched.status, JSON.stringify(patched.body)).toBe(200)

      const [, command = '', head = ''] = /^\$ (kubectl get mcl .*)\n(.*)\n/m.exec(page) ?? []
      const [columns = '', row = ''] = kubectl(command).split('\n')
      expect(columns.split(/\s+/)).toEqual(head.split(/\s+/))
      expect(row).toMatch(/^report +east\/web-0 +east +7 +\d+s +\d+s$/)
      for (const [, other = ''] of page.matchAll(/`(kubectl (?:get mcl|describe) [^`]*)`/g)) {
        expect(kubectl(other)).toMatch(other.includes('describe') ? /Reason: +Relaying/ : /^jobs +report /m)
      }
    })
  })
})
