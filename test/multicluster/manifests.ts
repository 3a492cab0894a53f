import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect } from 'vitest'
import { collectionOf, listFilesIn, parseOne, type Manifest } from '../kubernetes/manifests.ts'
import type { ApiServer } from '../servers/cluster.ts'
import { requestJson } from '../servers/https-json.ts'

/** The folder of the manifests. */
export const folder = join(import.meta.dirname, '../../deploy/multicluster')
export const files = listFilesIn(folder)
export const isKustomization = (file: string) => basename(file) === 'kustomization.yaml'
export const isPatch = (file: string) => file.endsWith('-patch.yaml')
export const readme = readFileSync(join(folder, 'README.md'), 'utf8')
/** The components, each by its folder. */
export const components = files
  .filter((file) => file.startsWith('components/') && isKustomization(file))
  .map((file) => file.slice(0, -'/kustomization.yaml'.length))

/** Returns the only object of a file. */
export function readManifest(file: string): Manifest {
  return parseOne(readFileSync(join(folder, file), 'utf8'))
}

/** The manifests that the folder's own kustomization.yaml lists, in order. */
export const base = (readManifest('kustomization.yaml') as Manifest & { resources: string[] }).resources.map(
  readManifest,
)

const contentTypes = { apply: 'application/apply-patch+yaml', patch: 'application/strategic-merge-patch+json' }

/** Returns the API path of the object that a manifest describes. */
export function pathOf(manifest: Manifest): string {
  const { namespace = '' } = manifest.metadata as { namespace?: string }
  return `${collectionOf(manifest, namespace)}/${manifest.metadata.name}`
}

/** Applies a manifest, or applies it as a patch, as kustomize does. Fails if the API server rejects it or warns about it. */
export async function applyTo<Result = unknown>(
  { url, ca, adminToken: token }: ApiServer,
  manifest: Manifest,
  way: keyof typeof contentTypes = 'apply',
): Promise<Result> {
  const query = `fieldValidation=Strict&fieldManager=tests${way === 'apply' ? '&force=true' : ''}`
  const path = `${pathOf(manifest)}?${query}`
  const request = { url, ca, token, method: 'PATCH', path, contentType: contentTypes[way], body: manifest }
  const { status, body } = await requestJson<Result>(request)
  expect([200, 201], `${manifest.kind} ${manifest.metadata.name}: ${JSON.stringify(body)}`).toContain(status)
  return body
}
