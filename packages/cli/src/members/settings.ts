import { json, serviceSettings } from '../shared/arguments/store-settings.ts'

export const membersSettings = { ...serviceSettings, json }
