/**
 * Groups that the service keeps for itself, next to those of its clients. What they record is durable on every storage,
 * known to every replica, and part of every backup. No client can name one, because group ids begin with a letter or a
 * digit. They sort after all others.
 */
const mark = '~'

export function isReservedGroup(groupId: string): boolean {
  return groupId.startsWith(mark)
}

export function reservedGroup(kind: string, name: string): string {
  return `${mark}${kind}:${name}`
}
