"""runtime/launchers"""
