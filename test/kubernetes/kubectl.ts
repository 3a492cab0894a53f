import { execFileSync } from 'node:child_process'

/** Why the manifests cannot be put together here, or nothing: kubectl is no package of Debian. */
export function whyNoKubectl(): string | undefined {
  try {
    execFileSync('kubectl', ['kustomize', '--help'], { stdio: 'ignore' })
    return undefined
  } catch (error) {
    return `there is no kubectl: ${String(error)}`
  }
}
