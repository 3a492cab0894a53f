import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { ApiServer } from './cluster.ts'

const file = join(import.meta.dirname, '../../deploy/multicluster/crd.yaml')
const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** Returns the definition of MultiClusterLeases. */
export function readCrd(): unknown {
  return parse(readFileSync(file, 'utf8'))
}

/**
 * Installs the CRD of MultiClusterLeases and waits until the API server serves it. Suites that share a server may all
 * call it.
 */
export async function installCrd({ admin }: Pick<ApiServer, 'admin'>): Promise<void> {
  const { status, body } = await admin.request('POST', `${definitions}?fieldValidation=Strict`, readCrd())
  if (status !== 201 && status !== 409) throw new Error(`the API server rejected the CRD: ${JSON.stringify(body)}`)
  for (const endsMs = Date.now() + 30_000; ;) {
    if ((await admin.request('GET', '/apis/tenure.dev/v1alpha1/multiclusterleases?limit=1')).status === 200) return
    if (Date.now() > endsMs) throw new Error('the API server does not serve MultiClusterLeases')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
