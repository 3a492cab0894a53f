/**
 * Groups that the service keeps for itself, beside those of its clients, so that what it must remember is durable on
 * every storage, known to every replica, and part of every backup. No client can name one: ids of groups begin with a
 * letter or a digit. They come after all others.
 */
const mark = '~'

export function isOwnGroup(groupId: string): boolean {
  return groupId.startsWith(mark)
}

export function ownGroup(kind: string, name: string): string {
  return `${mark}${kind}:${name}`
}
