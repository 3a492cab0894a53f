import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { collectionOf, inNamespace, parseObjects, type Manifest } from '../kubernetes/manifests.ts'
import { mount } from '../kubernetes/fake-mount.ts'
import { newTestNamespace } from '../kubernetes/test-namespace.ts'
import { freePort } from '../servers/free-port.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { exampleFile, newRecipeFolder, waitOptions, documentBlock, slowTest } from './recipe-folder.ts'

const heading = 'A Kubernetes sidecar'
const text = readFileSync(exampleFile('kubernetes-sidecar/my-app.yaml'), 'utf8')
const objects = parseObjects(text)

interface Deployment extends Manifest {
  readonly spec: {
    readonly template: {
      readonly metadata: object
      readonly spec: {
        readonly initContainers: readonly {
          readonly args: readonly string[]
          readonly env: readonly { readonly name: string; readonly valueFrom: { readonly fieldRef: object } }[]
        }[]
        readonly containers: readonly { readonly command: readonly string[] }[]
      }
    }
  }
}
const { template } = (objects.find(({ kind }) => kind === 'Deployment') as Deployment).spec
const [sidecar] = template.spec.initContainers
const [program] = template.spec.containers

test('kubernetes-sidecar: the document shows what the manifest runs', () => {
  expect(text.split('\n').map((line) => line.trim())).toContain(documentBlock(heading, 'yaml'))
  expect(program?.command.join(' ')).toBe(documentBlock(heading, 'sh'))
})

describeWithCluster('a Kubernetes sidecar', (cluster) => {
  /** Applies the objects of the manifest in a namespace. The service account already exists. */
  const apply = async () => {
    const tenant = await newTestNamespace(cluster())
    onTestFinished(tenant.remove)
    expect(objects[0]).toMatchObject({ kind: 'ServiceAccount', metadata: { name: 'my-app' } })
    for (const manifest of objects.slice(1)) await tenant.create(manifest)
    await tenant.hasRight('watch', 'leases')
    return tenant
  }

  test('kubernetes-sidecar: its pods pass the strictest pod security standard', async () => {
    const { admin, namespace } = cluster()
    const strict = `${namespace}-strict`
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
    await admin.request('POST', '/api/v1/namespaces', { metadata: { name: strict, labels } })
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...template.metadata, name: 'my-app' },
      spec: template.spec,
    }
    const path = `${collectionOf(pod, strict)}?fieldValidation=Strict`
    expect((await admin.request('POST', path, inNamespace(pod, strict))).status).toBe(201)
  })

  test(
    'kubernetes-sidecar: one of two pods works, and the other one works when the first is deleted',
    slowTest,
    async () => {
      const tenant = await apply()
      const { folder, put, lines, machine } = newRecipeFolder({
        TENURE_TTL: '6s',
        KUBECONFIG: '',
        KUBERNETES_SERVICE_HOST: '127.0.0.1',
        KUBERNETES_SERVICE_PORT: String(cluster().port),
      })
      copyFileSync(exampleFile('kubernetes-sidecar/worker'), join(folder, 'worker'))
      put('one-round', '#!/bin/sh\necho "$POD in term $TENURE_TERM" >> "$FOLDER/rounds"\n')
      /** Starts the containers of a pod, which share an address. */
      const startPod = async (name: string) => {
        const address = `127.0.0.1:${await freePort()}`
        const fields: Record<string, string> = { 'metadata.name': name, 'metadata.namespace': tenant.namespace }
        const env = Object.fromEntries(
          (sidecar?.env ?? []).map(({ name: variable, valueFrom: { fieldRef } }) => [
            variable,
            fields[(fieldRef as { fieldPath: string }).fieldPath] ?? '',
          ]),
        )
        const NODE_OPTIONS = mount('/var/run/secrets/kubernetes.io/serviceaccount', tenant.folder)
        const args = (sidecar?.args ?? []).join(' ')
        return {
          sidecar: machine(`exec tenure ${args}`, { ...env, NODE_OPTIONS, TENURE_LISTEN: address }),
          program: machine(documentBlock(heading, 'sh'), { POD: name, SIDECAR_URL: `http://${address}` }),
        }
      }
      const works = (pod: string) =>
        vi.waitUntil(() => lines('rounds').some((line) => line.startsWith(pod)), waitOptions)

      const first = await startPod('pod-a')
      await works('pod-a in term 1')
      const second = await startPod('pod-b')
      // Kubernetes ends the sidecars of a pod after its other containers.
      first.program.child.kill('SIGTERM')
      expect(await first.program.ended).toBe(0)
      first.sidecar.child.kill('SIGTERM')
      expect(await first.sidecar.ended).toBe(0)
      await works('pod-b in term')
      // Without its sidecar, the program does nothing.
      second.sidecar.child.kill('SIGKILL')
      await second.sidecar.ended
      await startPod('pod-c')
      await works('pod-c in term')
      const pods = lines('rounds').map((line) => line.slice(0, 5))
      expect(pods).toEqual(pods.toSorted())
    },
  )
})
