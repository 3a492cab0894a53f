import { json, storeSettings } from '../shared/arguments/store-settings.ts'

export const groupsSettings = { ...storeSettings, json }
