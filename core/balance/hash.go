package balance

// hashString is FNV-1a, going on from h. It must be the same in every process of a fleet, so hash/maphash won't do.
func hashString(h uint64, s string) uint64 {
	h ^= 0xcbf29ce484222325
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

// mix spreads each bit over all (the finalizer of SplitMix64).
func mix(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
